from ._optimize import minimize as minimize

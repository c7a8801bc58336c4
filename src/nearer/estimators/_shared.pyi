from ._optimize import Follow as Follow
from ._optimize import follow_iterations as follow_iterations
from ._optimize import minimize as minimize
from .linear._within_class import OF_FEW as OF_FEW

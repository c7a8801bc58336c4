from ._loop import Moment as Moment
from ._processes import agree as agree
from ._processes import rank as rank
from ._riemannian import riemannian_conjugate_gradient as riemannian_conjugate_gradient

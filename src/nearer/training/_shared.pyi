from ._loop import Callback as Callback
from ._loop import History as History
from ._loop import Moment as Moment
from ._processes import agree as agree
from ._processes import rank as rank
from ._riemannian import riemannian_conjugate_gradient as riemannian_conjugate_gradient
from ._samplers import Sampler as Sampler
from ._views import jiggled as jiggled

from ._orthogonal import cayley_retraction as cayley_retraction
from ._orthogonal import orthonormalize as orthonormalize
from ._orthogonal import polar_retraction as polar_retraction
from ._orthogonal import qr_retraction as qr_retraction
from ._orthogonal import tangent_projection as tangent_projection

from ._asymmetric import AsymmetricMap as AsymmetricMap
from ._asymmetric import TwoEncoders as TwoEncoders
from ._encoders import MLP as MLP
from ._encoders import Chain as Chain
from ._encoders import embed as embed
from ._itq import itq as itq
from ._loading import load as load
from ._mahalanobis import Mahalanobis as Mahalanobis
from ._orthogonal import OrthogonalMap as OrthogonalMap
from ._plain import UnitLength as UnitLength
from ._similarity import cosine_similarity as cosine_similarity
from ._similarity import euclidean_distance as euclidean_distance
from ._similarity import normalize as normalize
from ._standardize import Standardize as Standardize

__all__ = [
    "MLP",
    "AsymmetricMap",
    "Chain",
    "Mahalanobis",
    "OrthogonalMap",
    "Standardize",
    "TwoEncoders",
    "UnitLength",
    "cosine_similarity",
    "embed",
    "euclidean_distance",
    "itq",
    "load",
    "normalize",
]

from ._asymmetric import AsymmetricMap as AsymmetricMap
from ._asymmetric import TwoEncoders as TwoEncoders
from ._asymmetric import inner_product_database as inner_product_database
from ._asymmetric import inner_product_queries as inner_product_queries
from ._attention_heads import AttentionHeads as AttentionHeads
from ._attention_heads import DecoupledEncoder as DecoupledEncoder
from ._boosted_heads import BoostedHeads as BoostedHeads
from ._encoders import MLP as MLP
from ._encoders import Chain as Chain
from ._encoders import ColorCNN as ColorCNN
from ._encoders import DigitsCNN as DigitsCNN
from ._encoders import embed as embed
from ._loading import load as load
from ._mahalanobis import Mahalanobis as Mahalanobis
from ._mahalanobis import project_psd as project_psd
from ._orthogonal import OrthogonalMap as OrthogonalMap
from ._orthogonal import orthonormalize as orthonormalize
from ._plain import UnitLength as UnitLength
from ._rmac import rmac as rmac
from ._similarity import cosine_similarity as cosine_similarity
from ._similarity import dot_product as dot_product
from ._similarity import euclidean_distance as euclidean_distance
from ._similarity import normalize as normalize
from ._similarity import squared_euclidean_distance as squared_euclidean_distance
from ._standardize import Standardize as Standardize

__all__ = [
    "MLP",
    "AsymmetricMap",
    "AttentionHeads",
    "BoostedHeads",
    "Chain",
    "ColorCNN",
    "DecoupledEncoder",
    "DigitsCNN",
    "Mahalanobis",
    "OrthogonalMap",
    "Standardize",
    "TwoEncoders",
    "UnitLength",
    "cosine_similarity",
    "dot_product",
    "embed",
    "euclidean_distance",
    "inner_product_database",
    "inner_product_queries",
    "load",
    "normalize",
    "orthonormalize",
    "project_psd",
    "rmac",
    "squared_euclidean_distance",
]

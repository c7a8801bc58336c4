"""How near two items are: similarities and distances, learnable linear geometries, and encoders in front of them.

Similarities go up when items are closer, distances go down. A geometry has `transform` (rows in, rows out; a
Euclidean distance after it is the learned one) and `distance`. Everything with parameters is a torch module with
`save(path)`, and `load(path)` brings it back without pickle.
"""

from nearer.geometry._asymmetric import AsymmetricMap, TwoEncoders, inner_product_database, inner_product_queries
from nearer.geometry._attention_heads import AttentionHeads, DecoupledEncoder
from nearer.geometry._boosted_heads import BoostedHeads
from nearer.geometry._encoders import MLP, Chain, ColorCNN, DigitsCNN, embed
from nearer.geometry._loading import load
from nearer.geometry._mahalanobis import Mahalanobis, factor_of, project_psd
from nearer.geometry._object_crop import crop, object_boxes, random_walk_saliency
from nearer.geometry._orthogonal import (
    OrthogonalMap,
    cayley_retraction,
    orthogonality_penalty,
    orthonormalize,
    polar_retraction,
    qr_retraction,
    tangent_projection,
)
from nearer.geometry._plain import UnitLength, to_sequential
from nearer.geometry._rmac import rmac, rmac_windows
from nearer.geometry._similarity import (
    cosine_similarity,
    dot_product,
    euclidean_distance,
    normalize,
    squared_euclidean_distance,
)
from nearer.geometry._standardize import Standardize

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
    "cayley_retraction",
    "cosine_similarity",
    "crop",
    "dot_product",
    "embed",
    "euclidean_distance",
    "factor_of",
    "inner_product_database",
    "inner_product_queries",
    "load",
    "normalize",
    "object_boxes",
    "orthogonality_penalty",
    "orthonormalize",
    "polar_retraction",
    "project_psd",
    "qr_retraction",
    "random_walk_saliency",
    "rmac",
    "rmac_windows",
    "squared_euclidean_distance",
    "tangent_projection",
    "to_sequential",
]

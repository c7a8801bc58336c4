"""How near two items are: similarities and distances, learnable linear geometries, and encoders in front of them.

Similarities go up when items are closer, distances go down. A geometry has `transform` (rows in, rows out; a
Euclidean distance after it is the learned one) and `distance`. Everything with parameters is a torch module with
`save(path)`, and `load(path)` brings it back without pickle.
"""

from nearer.geometry.asymmetric import AsymmetricMap, TwoEncoders, inner_product_database, inner_product_queries
from nearer.geometry.attention_heads import AttentionHeads, DecoupledEncoder
from nearer.geometry.boosted_heads import BoostedHeads
from nearer.geometry.encoders import MLP, Chain, ColourCNN, DigitsCNN, embed
from nearer.geometry.loading import load
from nearer.geometry.mahalanobis import Mahalanobis, factor_of, project_psd
from nearer.geometry.object_crop import crop, object_boxes, random_walk_saliency
from nearer.geometry.orthogonal import (
    OrthogonalMap,
    cayley_retraction,
    orthogonality_penalty,
    orthonormalise,
    polar_retraction,
    qr_retraction,
    tangent_projection,
)
from nearer.geometry.plain import UnitLength, to_sequential
from nearer.geometry.rmac import rmac, rmac_windows
from nearer.geometry.similarity import (
    cosine_similarity,
    dot_product,
    euclidean_distance,
    normalise,
    squared_euclidean_distance,
)
from nearer.geometry.standardise import Standardise

__all__ = [
    "MLP",
    "AsymmetricMap",
    "AttentionHeads",
    "BoostedHeads",
    "Chain",
    "ColourCNN",
    "DecoupledEncoder",
    "DigitsCNN",
    "Mahalanobis",
    "OrthogonalMap",
    "Standardise",
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
    "normalise",
    "object_boxes",
    "orthogonality_penalty",
    "orthonormalise",
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

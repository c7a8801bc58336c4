"""Factors on the learning rate of the encoder, by data set and row; a row that is not named has 1.

Each was chosen on validation classes with the first seed by `nearer reproduce unified-view --tune`, whose
results are in `benchmarks/results/unseen_rates_*.json`. No unseen class took part. Rows with class vectors take the
factor that was best for AMSoftmax, rows that weigh pairs the one that was best for RAW+VTHM.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RATES", "WITH_CLASS_VECTORS", "rate_of"]

WITH_CLASS_VECTORS = frozenset(
    {"AMSoftmax", "JRD", "MRD", "JRD-C", "JRD-Pooling", "JMMD", "penalty", "Laplace", "poly-2", "poly-5"}
    | {"poly-2, clamped", "MGF", "SoftTriple", "Proxy-NCA"}
)
# Data set: factor of rows with class vectors, factor of all others.
RATES: Mapping[str, tuple[float, float]] = {"cars196_features": (2.5, 0.5)}


def rate_of(data: str, row: str) -> float:
    """The factor of a row on a data set.

    >>> rate_of("cars196_features", "JRD"), rate_of("coil20", "JRD")
    (2.5, 1.0)
    """
    vectors, pairs = RATES.get(data, (1.0, 1.0))
    # "JRD, α = 3" is JRD.
    return vectors if row in WITH_CLASS_VECTORS or row.split(", α = ")[0] in WITH_CLASS_VECTORS else pairs

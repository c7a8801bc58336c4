"""Factors on the learning rate of the encoder, by data set and row.

Each was chosen on validation classes with the first seed by `nearer reproduce unified-view --tune` (or `jrd`); the
results are in `benchmarks/results/unseen_tuning_*.json`; a test compares the two. No unseen class took part. A row
that was not tuned itself takes the factor of the row that it is a variant of ("JRD, α = 3" that of JRD), then that
of its family, where the data set has one, else 1.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RATES", "VARIANT_OF", "rate_of"]

_JRD = ("MRD", "JRD-C", "JRD-Pooling", "JMMD", "penalty", "Laplace", "poly-2", "poly-2, clamped", "poly-5", "MGF")
VARIANT_OF = {
    **dict.fromkeys(_JRD, "JRD"),
    "Binomial, scaled": "Binomial",
    "Binomial+VTHM, unscaled": "Binomial+VTHM",
}
_CLASS_VECTORS = frozenset({"AMSoftmax", "JRD", "SoftTriple", "Proxy-NCA"})
# "class vectors" and "pairs" are families: what was best for AMSoftmax and for RAW+VTHM.
RATES: Mapping[str, Mapping[str, float]] = {
    "cars196_features": {"class vectors": 2.5, "pairs": 0.5},
    "omniglot": {
        "RAW": 1.0,
        "RAW+VTHM": 2.0,
        "RAW+VTHM, margin 0.2": 2.0,
        "RAW+VTHM, margin 0.3": 2.0,
        "AMSoftmax": 2.0,
        "JRD": 2.0,
        "Binomial": 0.5,
        "VTHM": 1.0,
        "Binomial+VTHM": 1.0,
        "RAW+DW": 4.0,
        "RAW+SemiHard": 1.0,
        "PDDM": 0.25,
        "HDC": 4.0,
        "Binomial, scaled": 0.5,
        "Binomial+VTHM, unscaled": 1.0,
        "Contrastive": 0.5,
        "Triplet": 0.5,
        "Triplet, one random negative": 0.5,
        "Lifted": 0.25,
        "Lifted, generalized": 0.5,
        "N-pairs": 0.5,
        "Histogram": 0.5,
        "Angular": 1.0,
        "Quadruplet": 0.5,
        "Margin": 1.0,
        "Proxy-NCA": 0.5,
        "HTL": 1.0,
        "Clustering": 2.0,
        "Smart Mining": 0.25,
        "BIER": 1.0,
        "ABIER": 1.0,
        "MS": 2.0,
    },
}


def rate_of(data: str, row: str) -> float:
    """The factor of a row on a data set.

    >>> rate_of("cars196_features", "JRD, α = 3"), rate_of("cars196_features", "Triplet"), rate_of("coil20", "JRD")
    (2.5, 0.5, 1.0)
    """
    known = RATES.get(data, {})
    name = row.split(", α = ")[0]
    parent = VARIANT_OF.get(name, name)
    family = "class vectors" if parent in _CLASS_VECTORS else "pairs"
    return next((known[one] for one in (row, name, parent, family) if one in known), 1.0)

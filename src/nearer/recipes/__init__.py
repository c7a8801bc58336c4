"""Whole experiments as library code: data, training, scores on held-out items and a report.

`learn_digits()` is what `nearer demo` runs. Published tables will follow, one file each.
"""

from nearer.recipes.digits._digits import DigitsResult, learn_digits

__all__ = ["DigitsResult", "learn_digits"]

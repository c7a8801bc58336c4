"""What is wrong with the data: labels that are likely wrong, near-duplicates, classes that overlap, items unlike
everything else.

`find_issues` looks at raw features and labels; nothing here needs a learned metric, because the raw features and a
cross-fitted classifier find wrong labels better than the neighbors under a metric that learned from those labels.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

"""What is wrong with the data: labels that are likely wrong, near-duplicates, classes that overlap, items unlike
everything else.

`find_issues` looks at raw features and labels; nothing here needs a learned metric, because the raw features and a
cross-fitted classifier find wrong labels better than the neighbors under a metric that learned from those labels.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

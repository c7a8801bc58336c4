"""What to trust: wrong labels, same or not with a bounded error, and what to ask next.

`find_issues` looks at raw features and labels and needs no learned metric: a cross-fitted classifier on the raw
features finds wrong labels better than the neighbors under a metric that learned from those labels. `SamePair` and
`ClassSets` are decisions whose error rates hold, on classes that were never seen for the first. `suggest_items` and
`suggest_pairs` choose the questions whose answer would teach the metric most.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

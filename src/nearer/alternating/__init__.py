"""Few labels behind an encoder: fix the network and learn a metric on a graph, fix the metric and move the network.

`alternate` runs the loop; what is learned on the graph is a learner of one's own (`AlternatingLearner`), ours
(`BelievedAngular`), the published one (`NeighborhoodAngular`), or one of five linear methods in their deep form.
`nearer.estimators.SemiSupervisedMetric` is the same behind a scikit-learn face.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

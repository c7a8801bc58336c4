"""The scikit-learn face: one algorithm, one file.

Every learner has `fit(X, y)`, `transform`, `mahalanobis_matrix`, `pair_distance`, `score_pairs`, `get_metric`,
`calibrate_threshold` and `predict_pairs`, and drops into a `Pipeline` or a `GridSearchCV`. Those that need less
than labels also have `fit_pairs`, `fit_triplets`, `fit_quadruplets` or `fit_chunks`. `MetricKNN`, `MLKNN` and
`AAKNN` predict from the neighbours under any of them. `AsymmetricKNN` learns one map for queries and another for
the database, and predicts with them.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

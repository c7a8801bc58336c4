"""The scikit-learn face: one algorithm, one file.

Every learner has `fit(X, y)`, `transform`, `mahalanobis_matrix`, `pair_distance`, `score_pairs`, `get_metric`,
`calibrate_threshold` and `predict_pairs`, and drops into a `Pipeline` or a `GridSearchCV`. Those that need less
than labels also have `fit_pairs`, `fit_triplets`, `fit_quadruplets` or `fit_chunks`. `MetricKNN`, `MLKNN` and
`AAKNN` predict from the neighbours under any of them. `AsymmetricKNN` learns one map for queries and another for
the database, and predicts with them.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

"""The scikit-learn face: one algorithm, one file.

Every learner has `fit(X, y)`, `transform`, `mahalanobis_matrix`, `pair_distance`, `score_pairs`, `get_metric`,
`calibrate_threshold` and `predict_pairs`, and drops into a `Pipeline` or a `GridSearchCV`. Those that need less
than labels also have `fit_pairs`, `fit_triplets`, `fit_quadruplets` or `fit_chunks`.
"""

from nearer.estimators.covariance import Covariance
from nearer.estimators.euclidean import Euclidean
from nearer.estimators.gmml import GMML
from nearer.estimators.kissme import KISSME
from nearer.estimators.lfda import LFDA
from nearer.estimators.rca import RCA

__all__ = [
    "GMML",
    "KISSME",
    "LFDA",
    "RCA",
    "Covariance",
    "Euclidean",
]

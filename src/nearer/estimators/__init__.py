"""The scikit-learn face: one algorithm, one file.

Every learner has `fit(X, y)`, `transform`, `mahalanobis_matrix`, `pair_distance`, `score_pairs`, `get_metric`,
`calibrate_threshold` and `predict_pairs`, and drops into a `Pipeline` or a `GridSearchCV`. Those that need less
than labels also have `fit_pairs`, `fit_triplets`, `fit_quadruplets` or `fit_chunks`. `MetricKNN`, `MLKNN` and
`AAKNN` predict from the neighbours under any of them. `AsymmetricKNN` learns one map for queries and another for
the database, and predicts with them.
"""

from nearer.estimators._learner import MetricLearner
from nearer.estimators._optimize import follow_iterations
from nearer.estimators.linear._covariance import Covariance
from nearer.estimators.linear._dml_eig import DMLEig
from nearer.estimators.linear._doublet_svm import DoubletSVM
from nearer.estimators.linear._euclidean import Euclidean
from nearer.estimators.linear._gmml import GMML
from nearer.estimators.linear._itml import ITML
from nearer.estimators.linear._kernels import KernelGMML, KernelLearner, KernelLMNN, KernelNCA
from nearer.estimators.linear._kissme import KISSME
from nearer.estimators.linear._ldml import LDML
from nearer.estimators.linear._lfda import LFDA
from nearer.estimators.linear._lmnn import LMNN
from nearer.estimators.linear._lsml import LSML
from nearer.estimators.linear._mlkr import MLKR
from nearer.estimators.linear._mmc import MMC
from nearer.estimators.linear._nca import NCA
from nearer.estimators.linear._rca import RCA
from nearer.estimators.linear._triplet_svm import TripletSVM
from nearer.estimators.neighbors._asymmetric_knn import AsymmetricKNN, KernelAsymmetricKNN
from nearer.estimators.neighbors._gerrymandering import GerrymanderingMetric
from nearer.estimators.neighbors._neighbors import AAKNN, MLKNN, MetricKNN
from nearer.estimators.partial._apit import APIT
from nearer.estimators.partial._apllr import APLLR
from nearer.estimators.partial._deep_pairs import (
    DeepAPIT,
    DeepAPLLR,
    DeepISDML,
    DeepLRML,
    DeepPairMetric,
    DeepSERAPH,
)
from nearer.estimators.partial._isdml import ISDML
from nearer.estimators.partial._lrml import LRML
from nearer.estimators.partial._semi_supervised import SemiSupervisedMetric
from nearer.estimators.partial._seraph import SERAPH
from nearer.estimators.relation._hraml import HRAML
from nearer.estimators.relation._raml_krr import RAMLKRR
from nearer.estimators.relation._raml_svr import RAMLSVR

__all__ = [
    "AAKNN",
    "APIT",
    "APLLR",
    "GMML",
    "HRAML",
    "ISDML",
    "ITML",
    "KISSME",
    "LDML",
    "LFDA",
    "LMNN",
    "LRML",
    "LSML",
    "MLKNN",
    "MLKR",
    "MMC",
    "NCA",
    "RAMLKRR",
    "RAMLSVR",
    "RCA",
    "SERAPH",
    "AsymmetricKNN",
    "Covariance",
    "DMLEig",
    "DeepAPIT",
    "DeepAPLLR",
    "DeepISDML",
    "DeepLRML",
    "DeepPairMetric",
    "DeepSERAPH",
    "DoubletSVM",
    "Euclidean",
    "GerrymanderingMetric",
    "KernelAsymmetricKNN",
    "KernelGMML",
    "KernelLMNN",
    "KernelLearner",
    "KernelNCA",
    "MetricKNN",
    "MetricLearner",
    "SemiSupervisedMetric",
    "TripletSVM",
    "follow_iterations",
]

"""The scikit-learn face: one algorithm, one file.

Every learner has `fit(X, y)`, `transform`, `mahalanobis_matrix`, `pair_distance`, `score_pairs`, `get_metric`,
`calibrate_threshold` and `predict_pairs`, and drops into a `Pipeline` or a `GridSearchCV`. Those that need less
than labels also have `fit_pairs`, `fit_triplets`, `fit_quadruplets` or `fit_chunks`. `MetricKNN`, `MLKNN` and
`AAKNN` predict from the neighbours under any of them. `AsymmetricKNN` learns one map for queries and another for
the database, and predicts with them.
"""

from nearer.estimators.apit import APIT
from nearer.estimators.apllr import APLLR
from nearer.estimators.asymmetric_knn import AsymmetricKNN, KernelAsymmetricKNN
from nearer.estimators.covariance import Covariance
from nearer.estimators.deep_pairs import DeepAPIT, DeepAPLLR, DeepISDML, DeepLRML, DeepPairMetric, DeepSERAPH
from nearer.estimators.dml_eig import DMLEig
from nearer.estimators.doublet_svm import DoubletSVM
from nearer.estimators.euclidean import Euclidean
from nearer.estimators.gerrymandering import GerrymanderingMetric
from nearer.estimators.gmml import GMML
from nearer.estimators.hraml import HRAML
from nearer.estimators.isdml import ISDML
from nearer.estimators.itml import ITML
from nearer.estimators.kernels import KernelGMML, KernelLearner, KernelLMNN, KernelNCA
from nearer.estimators.kissme import KISSME
from nearer.estimators.ldml import LDML
from nearer.estimators.learner import MetricLearner
from nearer.estimators.lfda import LFDA
from nearer.estimators.lmnn import LMNN
from nearer.estimators.lrml import LRML
from nearer.estimators.lsml import LSML
from nearer.estimators.mlkr import MLKR
from nearer.estimators.mmc import MMC
from nearer.estimators.nca import NCA
from nearer.estimators.neighbours import AAKNN, MLKNN, MetricKNN
from nearer.estimators.optimise import follow_iterations
from nearer.estimators.raml_krr import RAMLKRR
from nearer.estimators.raml_svr import RAMLSVR
from nearer.estimators.rca import RCA
from nearer.estimators.semi_supervised import SemiSupervisedMetric
from nearer.estimators.seraph import SERAPH
from nearer.estimators.triplet_svm import TripletSVM

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

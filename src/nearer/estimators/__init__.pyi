from ._class_probabilities import ClassProbabilities as ClassProbabilities
from ._learner import MetricLearner as MetricLearner
from .linear._alignment import Alignment as Alignment
from .linear._covariance import Covariance as Covariance
from .linear._dml_eig import DMLEig as DMLEig
from .linear._doublet_svm import DoubletSVM as DoubletSVM
from .linear._euclidean import Euclidean as Euclidean
from .linear._gmml import GMML as GMML
from .linear._itml import ITML as ITML
from .linear._kernels import KernelLearner as KernelLearner
from .linear._kissme import KISSME as KISSME
from .linear._lda import LDA as LDA
from .linear._ldml import LDML as LDML
from .linear._lfda import LFDA as LFDA
from .linear._lmnn import LMNN as LMNN
from .linear._lsml import LSML as LSML
from .linear._mlkr import MLKR as MLKR
from .linear._mmc import MMC as MMC
from .linear._nca import NCA as NCA
from .linear._rca import RCA as RCA
from .linear._triplet_svm import TripletSVM as TripletSVM
from .linear._within_class import WithinClass as WithinClass
from .neighbors._asymmetric_knn import AsymmetricKNN as AsymmetricKNN
from .neighbors._asymmetric_knn import KernelAsymmetricKNN as KernelAsymmetricKNN
from .neighbors._neighbors import AAKNN as AAKNN
from .neighbors._neighbors import MLKNN as MLKNN
from .neighbors._neighbors import MetricKNN as MetricKNN
from .partial._apit import APIT as APIT
from .partial._apllr import APLLR as APLLR
from .partial._isdml import ISDML as ISDML
from .partial._lrml import LRML as LRML
from .partial._semi_supervised import SemiSupervisedMetric as SemiSupervisedMetric
from .partial._seraph import SERAPH as SERAPH
from .relation._hraml import HRAML as HRAML
from .relation._raml_krr import RAMLKRR as RAMLKRR
from .relation._raml_svr import RAMLSVR as RAMLSVR

__all__ = [
    "AAKNN",
    "APIT",
    "APLLR",
    "GMML",
    "HRAML",
    "ISDML",
    "ITML",
    "KISSME",
    "LDA",
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
    "Alignment",
    "AsymmetricKNN",
    "ClassProbabilities",
    "Covariance",
    "DMLEig",
    "DoubletSVM",
    "Euclidean",
    "KernelAsymmetricKNN",
    "KernelLearner",
    "MetricKNN",
    "MetricLearner",
    "SemiSupervisedMetric",
    "TripletSVM",
    "WithinClass",
]

from ._clustering import ami as ami
from ._clustering import kmeans as kmeans
from ._clustering import nmi as nmi
from ._clustering import pairwise_f1 as pairwise_f1
from ._clustering import purity as purity
from ._evaluate import evaluate as evaluate
from ._evaluate import evaluate_distribution as evaluate_distribution
from ._evaluate import evaluate_multilabel as evaluate_multilabel
from ._result import Comparison as Comparison
from ._result import Evaluation as Evaluation
from ._result import compare as compare
from ._retrieval import map_at_r as map_at_r
from ._retrieval import mrr as mrr
from ._retrieval import precision_at_k as precision_at_k
from ._retrieval import r_precision as r_precision
from ._retrieval import recall_at_k as recall_at_k
from ._tree import evaluate_tree as evaluate_tree
from ._unlabeled import evaluate_unlabeled as evaluate_unlabeled

__all__ = [
    "Comparison",
    "Evaluation",
    "ami",
    "compare",
    "evaluate",
    "evaluate_distribution",
    "evaluate_multilabel",
    "evaluate_tree",
    "evaluate_unlabeled",
    "kmeans",
    "map_at_r",
    "mrr",
    "nmi",
    "pairwise_f1",
    "precision_at_k",
    "purity",
    "r_precision",
    "recall_at_k",
]

"""How good embeddings and predictions are.

`evaluate` is the one call: retrieval scores (Recall@K, Precision@K, MAP@R, R-precision, MRR) and clustering scores
(NMI, AMI, purity, pairwise F1) of embeddings, with the settings and counts behind them. `compare` puts two results
side by side. Each score is also a function of its own. `evaluate_multilabel` and `evaluate_distribution` score
predictions; the functions behind them are in `evaluation.multilabel` and `evaluation.distribution`.

Behind the retrieval scores, `ranking` decides what has to be looked at, `sweep` walks over the similarities tile by
tile, `first_hit` counts what comes before the first right item and `nearest` keeps the first places. No array of
queries × database is ever made.
"""

from nearer.evaluation._clustering import ami, nmi, pairwise_f1, purity
from nearer.evaluation._discrepancy import nn_discrepancy, nn_lambda
from nearer.evaluation._evaluate import DEFAULT_SCORES, evaluate, evaluate_distribution, evaluate_multilabel
from nearer.evaluation._kmeans import Clustering, kmeans
from nearer.evaluation._result import Comparison, Evaluation, compare
from nearer.evaluation._retrieval import map_at_r, mrr, precision_at_k, r_precision, recall_at_k

__all__ = [
    "DEFAULT_SCORES",
    "Clustering",
    "Comparison",
    "Evaluation",
    "ami",
    "compare",
    "evaluate",
    "evaluate_distribution",
    "evaluate_multilabel",
    "kmeans",
    "map_at_r",
    "mrr",
    "nmi",
    "nn_discrepancy",
    "nn_lambda",
    "pairwise_f1",
    "precision_at_k",
    "purity",
    "r_precision",
    "recall_at_k",
]

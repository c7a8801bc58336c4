"""How good embeddings and predictions are.

`evaluate` is the one call: retrieval scores (Recall@K, Precision@K, MAP@R, R-precision, MRR) and clustering scores
(NMI, AMI, purity, pairwise F1) of embeddings, with the settings and counts behind them. `compare` puts two results
side by side. Each score is also a function of its own. `evaluate_multilabel` and `evaluate_distribution` score
predictions; the functions behind them are in `evaluation.multilabel` and `evaluation.distribution`.

What is exported is in the files of this folder. Behind the retrieval scores is `_engine`, which streams over the
similarities; its docstring says which file to read first.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

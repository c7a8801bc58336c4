"""What is kept: a learned metric with what it takes, how it was made and what it scored, as one folder.

`fit_model(data)` chooses a method by what the labels are, learns, and scores the result beside the raw features on
held-out rows; `save_fitted` writes the model folder with its card; `load` brings the model back; `export` hands
it to programs without nearer. The command line is a thin layer over these.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

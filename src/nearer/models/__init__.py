"""What is kept: a learned metric with what it takes, how it was made and what it scored, as one folder.

`fit_model(data)` chooses a method by what the labels are, learns, and scores the result beside the raw features on
held-out rows; `save_fitted` writes the model folder with its card; `load` brings the model back; `export_onnx` and
`plain` hand it to programs without nearer. The command line is a thin layer over these.
"""

from nearer.models._card import model_card, save_fitted
from nearer.models._export import export_onnx, export_state, plain
from nearer.models._fitting import Fitted, Trial, fit_model
from nearer.models._methods import METHODS, Method, choose_method, method_named
from nearer.models._model import Inputs, Model, load
from nearer.models._problem import Problem
from nearer.models._settings import FitSettings

__all__ = [
    "METHODS",
    "FitSettings",
    "Fitted",
    "Inputs",
    "Method",
    "Model",
    "Problem",
    "Trial",
    "choose_method",
    "export_onnx",
    "export_state",
    "fit_model",
    "load",
    "method_named",
    "model_card",
    "plain",
    "save_fitted",
]

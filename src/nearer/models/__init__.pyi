from ._card import save_fitted as save_fitted
from ._export import export_onnx as export_onnx
from ._export import export_state as export_state
from ._export import plain as plain
from ._fitting import Fitted as Fitted
from ._fitting import fit_model as fit_model
from ._model import Model as Model
from ._model import load as load
from ._settings import FitSettings as FitSettings

__all__ = [
    "FitSettings",
    "Fitted",
    "Model",
    "export_onnx",
    "export_state",
    "fit_model",
    "load",
    "plain",
    "save_fitted",
]

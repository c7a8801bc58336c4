from ._bulk import embed_stream as embed_stream
from ._export import export_onnx as export_onnx
from ._export import export_state as export_state
from ._export import plain as plain
from ._model import Model as Model
from ._model import load as load

__all__ = [
    "Model",
    "embed_stream",
    "export_onnx",
    "export_state",
    "load",
    "plain",
]

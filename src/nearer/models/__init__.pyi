from ._bulk import embed_stream as embed_stream
from ._model import Model as Model

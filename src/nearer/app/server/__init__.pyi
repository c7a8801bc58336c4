from ._gate import create_app as create_app
from ._running import serve as serve
from ._settings import Settings as Settings

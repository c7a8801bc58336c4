from . import cli as cli
from . import client as client
from . import explorer as explorer
from . import server as server

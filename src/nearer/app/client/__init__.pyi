from ._client import Client as Client
from ._client import ServerError as ServerError

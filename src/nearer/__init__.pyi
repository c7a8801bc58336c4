from . import audit as audit
from . import client as client
from . import datasets as datasets
from . import decisions as decisions
from . import estimators as estimators
from . import evaluation as evaluation
from . import exceptions as exceptions
from . import explorer as explorer
from . import geometry as geometry
from . import graph as graph
from . import index as index
from . import losses as losses
from . import mining as mining
from . import models as models
from . import neighbors as neighbors
from . import pairwise as pairwise
from . import questions as questions
from . import relations as relations
from . import reports as reports
from . import server as server
from . import training as training
from .models._door import evaluate as evaluate
from .models._door import fit as fit
from .models._model import load as load

__version__: str

__all__ = [
    "audit",
    "client",
    "datasets",
    "decisions",
    "estimators",
    "evaluate",
    "evaluation",
    "exceptions",
    "explorer",
    "fit",
    "geometry",
    "graph",
    "index",
    "load",
    "losses",
    "mining",
    "models",
    "neighbors",
    "pairwise",
    "questions",
    "relations",
    "reports",
    "server",
    "training",
]

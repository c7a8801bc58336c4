from . import app as app
from . import datasets as datasets
from . import estimators as estimators
from . import evaluation as evaluation
from . import exceptions as exceptions
from . import geometry as geometry
from . import graph as graph
from . import index as index
from . import judging as judging
from . import losses as losses
from . import mining as mining
from . import models as models
from . import neighbors as neighbors
from . import pairwise as pairwise
from . import relations as relations
from . import reports as reports
from . import training as training
from .models._door import evaluate as evaluate
from .models._door import fit as fit
from .models._saved import load as load

__version__: str

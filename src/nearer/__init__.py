"""Metric learning: say what should be near; nearer learns the distance that makes it so.

The folders stand in the order that data flows: `relations`, `datasets`, `geometry`, `neighbors`, `graph`,
`pairwise`, `mining`, `losses`, `training`, `evaluation`, `index`, `estimators`, `judging`, `reports`, `models`,
`app`. `nearer.load(folder)` brings back a saved model. Importing
`nearer` loads none of them; each is loaded when it is first used.
"""

from nearer._border import attach as _attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

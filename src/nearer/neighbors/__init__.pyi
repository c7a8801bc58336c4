from ._search import Neighbors as Neighbors
from ._search import search as search
from ._votes import vote as vote

from ._bits import BitIndex as BitIndex
from ._copy import copy_index as copy_index
from ._duplicates import find_duplicates as find_duplicates
from ._index import Index as Index
from ._kinds import HNSW as HNSW
from ._kinds import IVF as IVF
from ._kinds import IVFPQ as IVFPQ
from ._kinds import Exact as Exact
from ._open import VectorIndex as VectorIndex
from ._open import open_index as open_index
from ._switch import switch_index as switch_index

__all__ = [
    "HNSW",
    "IVF",
    "IVFPQ",
    "BitIndex",
    "Exact",
    "Index",
    "VectorIndex",
    "copy_index",
    "find_duplicates",
    "open_index",
    "switch_index",
]

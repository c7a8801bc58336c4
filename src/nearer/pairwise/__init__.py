"""S in tiles, never as a whole: how a pair loss is computed.

`panels` is the general engine (any relation, any miner, two sets), `symmetric` the fast one for class labels,
`mined` the one for weights that mining makes sparse, `distributed` the sharded form, and `function` the border
to autograd. A loss gives the engine a rule from similarities to weights; the engine gives back the value and
the gradient (G + Gᵀ) Z.
"""

from nearer.pairwise._function import Program, differentiate, normalize_rows
from nearer.pairwise._panels import Gradient, Miner, Pairing, Panel, Reduction, RowRule, Rows, by_panels, tile_size
from nearer.pairwise._segments import Block, Segments, Tile
from nearer.pairwise._symmetric import Factors, Kernel, by_tiles

__all__ = [
    "Block",
    "Factors",
    "Gradient",
    "Kernel",
    "Miner",
    "Pairing",
    "Panel",
    "Program",
    "Reduction",
    "RowRule",
    "Rows",
    "Segments",
    "Tile",
    "by_panels",
    "by_tiles",
    "differentiate",
    "normalize_rows",
    "tile_size",
]

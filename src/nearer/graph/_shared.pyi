from ._propagation import ClassShares as ClassShares
from ._propagation import two_sided_affinity as two_sided_affinity

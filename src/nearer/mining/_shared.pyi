from ._neighborhood import mine_neighborhood as mine_neighborhood
from ._neighborhood import mine_signed as mine_signed
from ._vthm import mine_valid_triplets as mine_valid_triplets

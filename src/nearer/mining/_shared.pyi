from ._neighborhood import mine_neighborhood as mine_neighborhood
from ._neighborhood import mine_signed as mine_signed
from ._random_pairs import draw_partners as draw_partners
from ._vthm import mine_valid_triplets as mine_valid_triplets

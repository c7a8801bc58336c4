from ._near import Near as Near
from ._rule import Far as Far
from ._rule import Miner as Miner
from ._rule import Panel as Panel
from ._rule import Rule as Rule
from ._rule import Statistic as Statistic
from ._rule import Terms as Terms

from ._audit import Audit as Audit
from ._audit import find_issues as find_issues
from ._class_sets import ClassSets as ClassSets
from ._same_pair import SamePair as SamePair
from ._suggest import suggest_items as suggest_items
from ._suggest import suggest_pairs as suggest_pairs

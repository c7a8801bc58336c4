from ._kinds import SIGNS as SIGNS
from ._kinds import Kind as Kind
from ._kinds import kind_of_column as kind_of_column
from ._kinds import kind_of_matrix as kind_of_matrix
from ._kinds import relation_of as relation_of
from ._relate import relate as relate
from ._relation import GradedRelation as GradedRelation
from ._relation import TableRelation as TableRelation

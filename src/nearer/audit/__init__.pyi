from ._issues import Audit as Audit
from ._issues import find_issues as find_issues

__all__ = [
    "Audit",
    "find_issues",
]

from ._items import suggest_items as suggest_items
from ._pairs import suggest_pairs as suggest_pairs

__all__ = [
    "suggest_items",
    "suggest_pairs",
]

from ._gestures import Gesture as Gesture
from ._items import Items as Items
from ._session import Session as Session

__all__ = [
    "Gesture",
    "Items",
    "Session",
]

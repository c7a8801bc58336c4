"""See it and say it: a map of the items in a local page, where people correct the metric by hand.

`Session` is all of it without a page: items, maps, gestures with undo and redo, refits, scores, questions, the
audit. The page is a face of it: `model.explore()` and `nearer explore` serve one session on this machine only.
It needs an extra: pip install 'nearer[explore]'.
"""

__all__: list[str] = []

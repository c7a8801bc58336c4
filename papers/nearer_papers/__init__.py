"""The published experiments of nearer, one folder for each line of work, and the data and systems only they need.

`nearer reproduce NAME` runs them. Nothing in `nearer` imports this package.
"""

__all__: list[str] = []

"""The published experiments, one folder for each line of work; `nearer reproduce NAME` runs them, `nearer demo`
one.
"""

__all__: list[str] = []

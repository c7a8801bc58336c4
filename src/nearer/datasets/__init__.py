"""Where data comes from: one typed loader for each data set, and `load_files` for your own.

Every loader returns a `Dataset`: named parts (`train` and `test` where a split is published, `all` always), each a
`Split` with items `x` and labels `y`. Files are looked for in `folder=`, else `$NEARER_DATA`, else
`~/.cache/nearer`; their SHA-256 is checked, and nothing is ever unpickled. docs/datasets.md lists what there is.
"""

from nearer._border import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, __file__)

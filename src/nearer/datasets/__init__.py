"""Where data comes from: one typed loader for each data set, and `load_files` for your own.

Every loader returns a `Dataset`: named parts (`train` and `test` where a split is published, `all` always), each a
`Split` with items `x` and labels `y`. Files are looked for in `folder=`, else `$NEARER_DATA`, else
`~/.cache/nearer`; their SHA-256 is checked, and nothing is ever unpickled. docs/datasets.md lists what there is.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)

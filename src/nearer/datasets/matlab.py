"""Read MATLAB files, in which several data sets are published; scipy's reader does not run code."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from nearer.datasets.dataset import Array
from nearer.exceptions import CorruptFileError, MissingDataError

__all__ = ["read_mat"]


def read_mat(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Array]:
    """The named variables of a MATLAB file (version 4 to 7.2)."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not Path(path).is_file():
        raise MissingDataError(f"`{path}` must be a MATLAB file, and there is no such file.")
    try:
        stored = loadmat(path, variable_names=list(names))
    # scipy's reader lets many kinds out for damaged files.
    except (MatReadError, ValueError, OSError, EOFError, TypeError, KeyError, IndexError, NotImplementedError,
            OverflowError, MemoryError, zlib.error) as error:  # fmt: skip
        raise CorruptFileError(f"`{path}` must be a MATLAB file, and cannot be read as one: {error}.") from error
    lacking = [name for name in names if name not in stored]
    if lacking:
        raise CorruptFileError(
            f"`{path}` must hold the variables {', '.join(names)}, and lacks {', '.join(lacking)}."
        )
    return {name: stored[name] for name in names}

"""Settings within their range, checked without loading NumPy or PyTorch: commands that only print must be quick."""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nearer.exceptions import MissingDataError, ParameterError, ShapeError

if TYPE_CHECKING:
    import numpy as np

# Names that a message lists; of more it says how many.
FEW = 20


def check_int(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """An integer setting within its range.

    >>> check_int(3, "k", maximum=5)
    3
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ParameterError(f"`{name}` must be an integer, got {value!r}.")
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ParameterError(f"`{name}` must be an integer of 64 bits, got one of {len(str(abs(number)))} digits.")
    if number < minimum or (maximum is not None and number > maximum):
        bounds = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"
        raise ParameterError(f"`{name}` must be {bounds}, got {number}.")
    return number


def check_number(
    value: Any,
    name: str,
    *,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> float:
    """A finite real setting within its range; `above` is an open bound, the other two are closed.

    >>> check_number(0.1, "margin", minimum=0)
    0.1
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ParameterError(f"`{name}` must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not math.isfinite(number):
        raise ParameterError(f"`{name}` must be finite, got {number}.")
    if above is not None and not number > above:
        raise ParameterError(f"`{name}` must be greater than {above}, got {number}.")
    if minimum is not None and number < minimum:
        raise ParameterError(f"`{name}` must be at least {minimum}, got {number}.")
    if maximum is not None and number > maximum:
        raise ParameterError(f"`{name}` must be at most {maximum}, got {number}.")
    return number


def check_rectangle(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Anything as an array, if it is a rectangle.

    >>> check_rectangle([[1, 2], [3, 4]], "x").shape
    (2, 2)
    """
    import numpy as np

    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ShapeError(f"`{name}` must be a rectangular array: {error}.") from error


def check_pairs(value: Any, name: str, n: int, *, size: int = 2) -> np.ndarray[Any, Any]:
    """Pairs of row numbers (m, 2), or triplets (m, 3), that lie inside n rows.

    >>> check_pairs([[0, 2]], "pairs", 3)
    array([[0, 2]])
    """
    import numpy as np

    listed = check_rectangle(value, name)
    if listed.ndim != 2 or listed.shape[1] != size or (len(listed) and listed.dtype.kind not in "iu"):
        raise ShapeError(
            f"`{name}` must be integer row numbers of shape (m, {size}), got {listed.dtype} {listed.shape}."
        )
    if len(listed) and not 0 <= listed.min() <= listed.max() < n:
        raise ShapeError(f"`{name}` must point into the {n} rows, got {listed.min()} to {listed.max()}.")
    return listed.astype(np.int64)


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """One of a few names; a near miss is suggested.

    >>> check_choice("mean", "reduction", ["mean", "sum"])
    'mean'
    """
    options = list(choices)
    if isinstance(value, str) and value in options:
        return str(value)
    from nearer._names import hint

    near = hint(value, options)
    shown = ", ".join(map(repr, options[:FEW]))
    if len(options) > FEW:
        shown = f"{len(options)} names" if near else f"{shown}, ... ({len(options)} in all)"
    raise ParameterError(f"`{name}` must be one of {shown}, got {value!r}.{near}")


def needed(module: str, what: str, extra: str) -> Any:
    """A module of a package that comes with an extra, imported when it is first needed; `what` needs it.

    >>> needed("math", "Counting needs math", "all").floor(2.5)
    2
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"{what}, which is not installed. Run: pip install 'nearer[{extra}]'"
        raise MissingDataError(message) from error

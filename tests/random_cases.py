"""Random inputs for everything public, and the one rule for what may come out: an answer, or an error of ours."""

from __future__ import annotations

import inspect
import os
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nearer.exceptions import NearerError, NearerWarning

TOTAL = int(os.environ.get("NEARER_FUZZ", "500"))
LONG = TOTAL > 500
# Of 500 examples; `make fuzz` multiplies them.
SHARES = {
    "losses": 140, "miners": 35, "choices": 20, "scores": 50, "estimators": 50, "relations": 30, "labeled": 20,
    "readers": 70, "folders": 60, "commands": 25,
}  # fmt: skip
OUTCOMES: Counter[tuple[str, str]] = Counter()

DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    np.int64,
    np.int8,
    np.uint8,
    np.uint64,
    np.bool_,
    np.complex64,
    object,
]
LAYOUTS = ["plain", "turned", "reversed", "strided", "read-only", "tensor", "list", "big-endian"]
NUMBERS = ["normal", "equal rows", "zeros", "huge", "tiny", "nan", "infinite", "one row repeated", "mixed scales"]
LABELS = ["few", "one class", "all different", "minus one", "partly minus one", "strings", "floats", "sets",
          "shares", "too short", "two columns", "huge", "none", "numbers"]  # fmt: skip


def family(name: str) -> Any:
    """The settings of a family's test: its share of the examples, always the same ones in `make test`."""
    return settings(
        max_examples=max(1, SHARES[name] * TOTAL // 500),
        deadline=None,
        derandomize=not LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=LONG,
    )


def public(module: ModuleType) -> dict[str, Any]:
    """What a package exports, by name."""
    return {name: getattr(module, name) for name in module.__all__}


def required(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that have no default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    listed = inspect.signature(function).parameters.values()
    return [one.name for one in listed if one.default is one.empty and one.kind not in kinds and one.name != "self"]


@st.composite
def matrices(draw: st.DrawFn, *, plain: bool = False, fewest: int = 0) -> Any:
    """A table (n, d) of some type, layout and kind of numbers; `plain` gives finite numbers of ordinary size."""
    n = draw(st.integers(fewest, 24))
    d = draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    kind = draw(st.sampled_from(NUMBERS[:4] if plain else NUMBERS))
    x = random.standard_normal((n, d))
    if kind == "equal rows":
        x[: n // 2] = x[:1]
    elif kind == "one row repeated":
        x[:] = x[:1]
    elif kind == "zeros":
        x[: n // 2] = 0
    elif kind == "huge":
        x *= 1e3 if plain else 1e30
    elif kind == "tiny":
        x *= 1e-30
    elif kind == "mixed scales":
        x *= 10.0 ** random.integers(-9, 9, (n, 1))
    elif kind in ("nan", "infinite") and x.size:
        x.flat[random.integers(x.size)] = np.nan if kind == "nan" else np.inf
    dtype = draw(st.sampled_from(DTYPES[:2] if plain else DTYPES))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.abs(x).astype(dtype) if dtype in (np.uint8, np.uint64) else x.astype(dtype)
    return laid_out(x, draw(st.sampled_from(["plain", "turned", "tensor"] if plain else LAYOUTS)))


def laid_out(x: np.ndarray, layout: str) -> Any:
    """The same numbers in another container or order of memory."""
    if layout == "turned":
        return np.asfortranarray(x)
    if layout == "reversed":
        return x[::-1].copy()[::-1]
    if layout == "strided":
        return np.repeat(x, 2, axis=0)[::2]
    if layout == "read-only":
        x = x.copy()
        x.flags.writeable = False
        return x
    if layout == "tensor" and x.dtype != object:
        return torch.from_numpy(x.copy())
    if layout == "list":
        return x.tolist()
    if layout == "big-endian" and x.dtype.kind in "fiu":
        return x.astype(x.dtype.newbyteorder(">"))
    return x


@st.composite
def labels(draw: st.DrawFn, n: int, *, plain: bool = False) -> Any:
    """Labels for n rows, of the right kind or not; `plain` gives whole numbers of a few classes."""
    kind = draw(st.sampled_from(LABELS[:3] if plain else LABELS))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    few = random.integers(0, 4, n)
    made: dict[str, Callable[[], Any]] = {
        "few": lambda: few,
        "one class": lambda: np.zeros(n, int),
        "all different": lambda: random.permutation(n),
        "minus one": lambda: np.full(n, -1),
        "partly minus one": lambda: few - 1,
        "strings": lambda: few.astype(str),
        "floats": lambda: few + 0.5,
        "sets": lambda: random.integers(0, 2, (n, 3)),
        "shares": lambda: random.dirichlet(np.ones(3), n),
        "too short": lambda: few[:-1],
        "two columns": lambda: np.stack([few, few], 1),
        "huge": lambda: few.astype(np.uint64) + np.uint64(2**63),
        "none": lambda: None,
        "numbers": lambda: random.standard_normal(n),
    }
    y = made[kind]()
    return torch.from_numpy(y) if plain and draw(st.booleans()) else y


def outcome(name: str, function: Callable[[], Any], *, allowed: tuple[str, ...] = ()) -> Any:
    """Call; give back the answer, or None for an error of ours. Any other error fails, with its last lines.

    `allowed` are modules whose ValueError and TypeError are theirs to raise (scikit-learn's own validation).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NearerWarning)
        # Pillow's words about an image that it can read all the same, and about one that we refuse as too large.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        # numpy's about a header that only Python 2 would have written.
        warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required", UserWarning)
        if allowed:
            warnings.filterwarnings("ignore", "The number of unique classes is greater than", UserWarning)
            # Of scikit-learn's look for infinities, which are refused right after it.
            warnings.filterwarnings("ignore", "invalid value encountered in reduce", RuntimeWarning)
            # Kernels of float32 rows near 1e30 overflow inside of scikit-learn; the answer is still checked.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"sklearn\.")
        try:
            answer = function()
        except NearerError:
            OUTCOMES[name, "refused"] += 1
            return None
        except (ValueError, TypeError) as error:
            module = str(traceback.extract_tb(error.__traceback__)[-1].filename)
            if not any(f"/{one}/" in module for one in allowed):
                raise
            OUTCOMES[name, "refused"] += 1
            return None
    OUTCOMES[name, "answered"] += 1
    return answer


def is_finite(value: Any) -> bool:
    """Whether a number, an array or a tensor has no NaN and no infinity."""
    return bool(torch.isfinite(torch.as_tensor(value)).all())

"""What every loader returns: named parts with items `x` and labels `y`, and where they come from.

One rule for the type of `x` holds for every data set:

- `uint8`: the bytes of images, 0..255, shape (n, h, w) or (n, h, w, 3);
- `bool`: two-coloured images, shape (n, h, w);
- `float32`: features of shape (n, p), or images of shape (n, h, w) in the range that the loader states;
- text: the paths of image files below `root`, shape (n,), read only when they are asked for;
- a scipy CSR matrix: term counts (the newsgroups only).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nearer._checks import check_rectangle
from nearer.datasets._image_files import crop_image, load_image
from nearer.exceptions import ParameterError, ShapeError
from nearer.relations import kind_of
from nearer.relations._shared import Kind

Array: TypeAlias = np.ndarray[Any, Any]
_TO_BE_FOUND: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Items and labels that belong together: `x` of shape (n, ...) and `y` of shape (n,) or (n, c).

    `y` holds class codes 0..c−1 (int64; −1 = no label), a 0/1 matrix for multi-label data (uint8), or rows that
    sum to one for label distributions (float32). `kind` is the word for it, found once by `relations.kind_of` and
    kept by `take`. `extra` holds further arrays with one entry per item.

    >>> part = Split(np.zeros((2, 3), np.float32), np.array([0, 1]))
    >>> part
    Split(x float32 (2, 3), y int64 (2,))
    >>> len(part)
    2
    """

    x: Array
    y: Array
    extra: Mapping[str, Array] = field(default_factory=dict)
    root: Path | None = None
    kind: Kind = _TO_BE_FOUND

    def __post_init__(self) -> None:
        n = self.x.shape[0]
        if self.kind is _TO_BE_FOUND:
            object.__setattr__(self, "kind", kind_of(self.y, name="y"))
        for name, array in {"y": self.y, **self.extra}.items():
            if len(array) != n:
                raise ShapeError(
                    f"`{name}` must have one entry for each of the {n} items of `x`, got {len(array)}."
                )

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def __repr__(self) -> str:
        kind = "paths" if self.x.dtype.kind == "U" else self.x.dtype
        extra = f", {', '.join(self.extra)}" if self.extra else ""
        return f"Split(x {kind} {tuple(self.x.shape)}, y {self.y.dtype} {self.y.shape}{extra})"

    def take(self, rows: Any) -> Split:
        """The items at these positions (or where this mask is true), in this order, as a new split.

        >>> Split(np.eye(3), np.array([5, 6, 7])).take([2, 0]).y
        array([7, 5])
        """
        index = check_rectangle(rows, "rows")
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise ShapeError(f"`rows` as a mask must have shape ({len(self)},), got {index.shape}.")
            index = np.flatnonzero(index)
        if index.size == 0:
            index = index.astype(np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise ShapeError(f"`rows` must be a list of positions, got {index.dtype} of shape {index.shape}.")
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise ShapeError(f"`rows` must lie between 0 and {len(self) - 1}, got {index.min()} to {index.max()}.")
        extra = {name: array[index] for name, array in self.extra.items()}
        return Split(self.x[index], self.y[index], extra, self.root, self.kind)

    def matrix(self) -> Array:
        """The items as rows of a new float32 matrix (n, p): images flattened, bytes divided by 255.

        >>> Split(np.full((1, 2, 2), 255, np.uint8), np.array([0])).matrix()
        array([[1., 1., 1., 1.]], dtype=float32)
        """
        x = self.x.toarray() if hasattr(self.x, "toarray") else self.x
        if x.dtype.kind == "U":
            raise ShapeError("`x` must hold numbers, got image files. Use images(size=...) to read them.")
        flat = x.reshape(len(x), int(np.prod(x.shape[1:]))).astype(np.float32)
        return flat / np.float32(255) if x.dtype == np.uint8 else flat

    def images(self, rows: Any = None, *, size: int | tuple[int, int] | None = None, crop: bool = False) -> Array:
        """The items as a new float32 array (n, channels, h, w) for a network; bytes divided by 255.

        `rows` limits it to some items, which matters when the images are files. `size` (one number, or height and
        width) is how large the files are made; it is needed when they differ. They are stretched to it, or with
        `crop` scaled with their aspect ratio and cut to the middle.

        >>> Split(np.zeros((5, 8, 9), np.uint8), np.zeros(5)).images([0, 1]).shape
        (2, 1, 8, 9)
        """
        part = self if rows is None else self.take(rows)
        x = part.x
        if x.dtype.kind == "U":
            paths = [(part.root or Path()) / str(name) for name in x]
            if crop and size is not None:
                files = [crop_image(load_image(path, enough=size), size) for path in paths]
            else:
                files = [load_image(path, size) for path in paths]
            shapes = {file.shape for file in files}
            if len(shapes) > 1:
                raise ShapeError(
                    f"`size` must be given, because the {len(files)} images have {len(shapes)} different sizes."
                )
            x = np.stack(files) if files else np.zeros((0, 1, 1, 3), np.uint8)
        elif size is not None:
            raise ParameterError("`size` is for image files; these images are in memory at their own size.")
        if x.ndim not in (3, 4) or hasattr(x, "toarray"):
            raise ShapeError(f"`x` must hold images of shape (n, h, w) or (n, h, w, 3), got {tuple(x.shape)}.")
        stack = x[:, None] if x.ndim == 3 else np.moveaxis(x, -1, 1)
        scaled = np.array(stack, dtype=np.float32, order="C")
        return scaled / np.float32(255) if x.dtype == np.uint8 else scaled


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A named set of splits; `train` and `test` where they are published, `all` always.

    >>> data = Dataset(Source("two", "Two points", "-", "-", "-"), {"all": Split(np.eye(2), np.array([0, 1]))})
    >>> data
    two: Two points, 2 classes
      all    Split(x float64 (2, 2), y int64 (2,))
    >>> data.train
    Traceback (most recent call last):
    ...
    nearer.exceptions.ParameterError: `part` must be one of 'all', got 'train'. two has no published train part: ...
    """

    source: Source
    parts: Mapping[str, Split]
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    note: str = ""
    skipped: tuple[str, ...] = ()
    cleaning: Any = None
    """The `Cleaning` that made the features of a table, for new tables of the same columns."""
    columns: Any = None
    """Which `ColumnRoles` of the table are labels, ids and kept."""
    encoder: Any = None
    """The frozen encoder that made the features of photos or texts, for new ones."""
    items: Sequence[Any] = ()
    """What the encoder saw (paths, bytes or texts), in the order of `all`."""
    pairs: Any = None
    """The `Pairs` of rows that are near or not, where pairs and not labels are known."""
    extra: Mapping[str, Array] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The short name, as `load(name)` takes it."""
        return self.source.name

    @property
    def kind(self) -> Kind:
        """What the labels are; "partial" if some part has items without a label."""
        kinds = [part.kind for part in self.parts.values()]
        return "partial" if "partial" in kinds else kinds[0]

    @property
    def n_classes(self) -> int:
        """How many classes (or labels) the codes can name."""
        ys = [part.y for part in self.parts.values()]
        if ys[0].ndim == 2:
            return int(ys[0].shape[1])
        return len(self.class_names) or 1 + max((int(y.max()) for y in ys if len(y)), default=-1)

    @property
    def citation(self) -> str:
        """What to cite."""
        return self.source.citation

    def __getitem__(self, part: str) -> Split:
        """One part by its name."""
        if part == "all":
            return self.all
        if part in self.parts:
            return self.parts[part]
        options = ", ".join(map(repr, [*(name for name in self.parts if name != "all"), "all"]))
        raise ParameterError(
            f"`part` must be one of {options}, got {part!r}. {self.name} has no published {part} part: take rows "
            f"of `all` with stratified_split or class_disjoint_split."
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    @property
    def train(self) -> Split:
        """The published training part."""
        return self["train"]

    @property
    def test(self) -> Split:
        """The published test part."""
        return self["test"]

    @property
    def all(self) -> Split:
        """Every item, the parts one after the other."""
        parts = list(self.parts.values())
        if len(parts) == 1:
            return parts[0]
        if hasattr(parts[0].x, "toarray"):
            from scipy import sparse

            x = sparse.vstack([part.x for part in parts], format="csr")
        else:
            x = np.concatenate([part.x for part in parts])
        names = [name for name in parts[0].extra if all(name in part.extra for part in parts)]
        extra = {name: np.concatenate([part.extra[name] for part in parts]) for name in names}
        return Split(x, np.concatenate([part.y for part in parts]), extra, parts[0].root, self.kind)

    def fingerprint(self) -> str:
        """SHA-256 over the arrays `x` and `y` of every part: equal for equal data wherever the files came from.

        Names, order and extra arrays of the parts count too; the folder of image files does not (their paths
        below it do, their pixels do not).

        >>> one = Dataset(Source("a", "", "", "", ""), {"all": Split(np.eye(2), np.array([0, 1]))})
        >>> two = Dataset(Source("a", "", "", "", ""), {"all": Split(np.eye(2), np.array([1, 0]))})
        >>> one.fingerprint() == two.fingerprint(), len(one.fingerprint())
        (False, 64)
        """
        digest = hashlib.sha256()
        for name, part in self.parts.items():
            for key, array in {**_plain_arrays(part.x), "y": part.y, **dict(sorted(part.extra.items()))}.items():
                plain = np.ascontiguousarray(array)
                if plain.dtype == object:  # text and holes: what they say, not where they are in memory
                    plain = np.frombuffer(json.dumps(plain.tolist(), default=str).encode(), dtype=np.uint8)
                digest.update(f"{name}/{key} {plain.dtype.str} {plain.shape}\n".encode())
                digest.update(plain.view(np.uint8).data if plain.size else b"")
        if self.pairs is not None:
            for table in self.pairs.listed():
                digest.update(np.ascontiguousarray(table.numpy()).view(np.uint8).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.source.title}, {self.n_classes} {_WORDS[self.kind]}"]
        lines += [f"  {name:<6} {part!r}" for name, part in self.parts.items()]
        lines += [f"  note: {self.note}"] if self.note else []
        lines += [f"  skipped: {len(self.skipped)} files"] if self.skipped else []
        return "\n".join(lines)


_WORDS: dict[Kind, str] = {
    "classes": "classes",
    "partial": "classes, not all labelled",
    "sets": "labels, several at once",
    "distributions": "label degrees",
    "numbers": "numbers",
    "pairs": "pairs",
}


def _plain_arrays(x: Any) -> dict[str, Array]:
    if not hasattr(x, "toarray"):
        return {"x": x}
    # scipy chooses the width of the indices by the size of the matrix and its version; the data is the same.
    return {"data": x.data, "indices": x.indices.astype(np.int64), "indptr": x.indptr.astype(np.int64)}


@dataclass(frozen=True)
class DataFile:
    """A prepared file of the data folder and the SHA-256 that it must have."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Download:
    """An original file: where it is kept below the data folder, its address and SHA-256."""

    name: str
    address: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: what to cite, under which licence, the address of the original, the files.

    >>> from nearer.datasets import load
    >>> load("digits").source.name
    'digits'
    """

    name: str
    title: str
    citation: str
    license: str
    address: str
    files: tuple[DataFile, ...] = ()
    downloads: tuple[Download, ...] = ()


def own_source(name: str) -> Source:
    """The source of the user's own data.

    >>> own_source("pets.csv").title
    'your pets.csv'
    """
    return Source(name, f"your {name}", "-", "your own", "-")

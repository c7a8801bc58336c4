"""Every choice that makes a run, in one place: the flags of `nearer fit` and the keys of its config file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from nearer._checks import check_choice, check_int, check_number
from nearer.exceptions import ParameterError


def _said(default: Any, about: str) -> Any:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class FitSettings:
    """How to learn; the defaults are those of the command line.

    >>> FitSettings(method="lmnn").seed
    0
    >>> FitSettings.from_dict({"metod": "lmnn"})
    Traceback (most recent call last):
    ...
    nearer.exceptions.ParameterError: `metod` is no setting. Did you mean `method`?
    """

    method: str = _said("choose", "a name from `nearer methods`, 'choose' (by rule) or 'auto' (try several)")
    loss: str | None = _said(None, "the class in nearer.losses that a network is trained with (method 'network')")
    loss_settings: Mapping[str, Any] = field(
        default_factory=dict, metadata={"about": "settings of the loss by name, such as {alpha: 2}"}
    )
    n_components: int | None = _said(None, "dimensions of the embedding; none keeps all (a network: 64)")
    standardize: bool | None = _said(
        None, "bring every feature to mean 0 and deviation 1 first; left out, the labels decide"
    )
    held_out: float = _said(0.2, "share of the labelled rows (5,000 at most) kept for the scores alone")
    split: Literal["auto", "stratified", "classes"] = _said(
        "auto", "'stratified' holds out rows of every class, 'classes' whole classes"
    )
    refit: bool = _said(True, "after scoring, learn again from all labelled rows (networks are not)")
    seed: int = _said(0, "chooses the split, the start and the batches")
    time: float = _said(60.0, "seconds that choosing and learning may take; longer methods are not chosen")
    epochs: int = _said(50, "passes over the data (networks)")
    batch_size: int = _said(128, "items in a batch (networks)")
    lr: float = _said(1e-3, "learning rate (networks)")
    patience: int = _said(10, "epochs without a better validation score before it stops (networks)")
    hidden: tuple[int, ...] = _said((512,), "widths of the hidden layers (networks on features)")
    precision: Literal["float32", "bfloat16", "float16"] = _said(
        "float32", "float32, bfloat16 or float16 (networks)"
    )
    chunk: int | None = _said(None, "encode so many items at a time; the loss stays that of the batch (networks)")
    finetune: bool = _said(False, "train the encoder of photos or texts too, from its closed form on")
    pictures: bool = _said(True, "draw a map of the held-out items for the model card")
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The settings that were asked for by name: one that the method does not use is refused, not ignored."""

    def __post_init__(self) -> None:
        if not isinstance(self.method, str):
            raise ParameterError(f"`method` must be a name, got {self.method!r}.")
        if self.n_components is not None:
            check_int(self.n_components, "n_components")
        if (self.loss is not None) != (self.method == "network"):
            raise ParameterError(
                f"`loss` must come with the method 'network' and the other way round, got {self.loss!r} and "
                f"{self.method!r}."
            )
        if self.loss_settings and self.loss is None:
            raise ParameterError("`loss_settings` must come with `loss=`, the loss they are for.")
        check_number(self.held_out, "held_out", above=0.0, maximum=0.9)
        check_int(self.seed, "seed", minimum=0, maximum=2**32 - 1)
        check_number(self.time, "time", above=0.0)
        check_int(self.epochs, "epochs")
        check_int(self.batch_size, "batch_size", minimum=4)
        check_number(self.lr, "lr", above=0.0)
        check_int(self.patience, "patience")
        object.__setattr__(self, "hidden", tuple(check_int(width, "hidden") for width in self.hidden))
        if self.chunk is not None:
            check_int(self.chunk, "chunk")
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if get_origin(kind) is Literal:
                check_choice(value, name, get_args(kind))
            elif kind in (bool, bool | None) and not isinstance(value, kind):
                raise ParameterError(f"`{name}` must be true or false, got {value!r}.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitSettings:
        """Settings from a config; a misspelt key is an error that suggests the near one."""
        check_keys(values, [one.name for one in dataclasses.fields(cls) if one.name != "given"])
        fixed = dict(values)
        fixed["given"] = frozenset(name for name, value in values.items() if value is not None)
        if isinstance(fixed.get("hidden"), list):
            fixed["hidden"] = tuple(fixed["hidden"])
        return cls(**fixed)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in a config."""
        values = {**dataclasses.asdict(self), "hidden": list(self.hidden)}
        del values["given"]
        return values

    @classmethod
    def described(cls) -> dict[str, tuple[Any, str]]:
        """The default and the meaning of every setting."""
        return {
            one.name: ({} if one.default is dataclasses.MISSING else one.default, str(one.metadata["about"]))
            for one in dataclasses.fields(cls)
            if one.name != "given"
        }


class DataKey(NamedTuple):
    """A setting of the data: its default, what it means, and which kind of value it has."""

    default: Any
    about: str
    kind: Any = str


NAMES = tuple[str, ...]
DATA_KEYS = {
    "data": DataKey(None, "the file (CSV, Parquet, NPZ, NPY) or the folder of images"),
    "label": DataKey(
        None, "the column of the classes; a list of 0/1 columns for label sets, of shares for distributions"
    ),
    "pairs": DataKey(None, "instead of labels: a table of two rows each (numbers or ids) and 1 (near) or 0"),
    "rows": DataKey(None, "take so many rows of the table, drawn at random; none takes all that fit", int),
    "features": DataKey(None, "the columns to use; none means all others", NAMES),
    "ignore": DataKey(None, "columns to leave out", NAMES),
    "id": DataKey(None, "the column that names each row in results; not a feature"),
    "keep": DataKey(None, "columns that searches show and filter by; not features", NAMES),
    "unlabeled": DataKey("-1", "the value that means: no label (an empty cell always does)"),
    "encoder": DataKey(
        None, "what turns photos or texts into features: efficientnet-lite0, minilm, none (a small network)"
    ),
    "text": DataKey(None, "the column of texts that the encoder reads; the others are then no features"),
    "image": DataKey(None, "the column that names photos, beside the table or by whole paths"),
    "unreadable": DataKey("raise", "damaged images: raise or skip", Literal["raise", "skip"]),
    "out": DataKey("model", "the model folder to write"),
}


def check_keys(values: Mapping[str, Any], known: list[str]) -> None:
    """Refuse a key that is none of the known ones."""
    for name in values:
        if name not in known:
            from nearer._names import meant

            near = meant(name, known)
            told = f"Did you mean `{near}`?" if near else f"There are {', '.join(known)}."
            raise ParameterError(f"`{name}` is no setting. {told}")

"""A learned metric as one thing: raw items in, embeddings out, with everything that is known about it."""

from __future__ import annotations

import hashlib
import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearer._checks import check_choice, check_int
from nearer._validation import as_tensor
from nearer.datasets import Dataset
from nearer.exceptions import LabelError, NearerError, ParameterError
from nearer.geometry import TwoEncoders, embed
from nearer.geometry._shared import description
from nearer.models._inputs import Inputs, item_metadata
from nearer.models._predicting import Votes, predict, predict_proba, score

if TYPE_CHECKING:
    from nearer.index import Index
    from nearer.index._kinds import SearchKind
    from nearer.index._vector_index import SearchResult
    from nearer.judging import Audit, SamePair
    from nearer.judging._class_losses import Guarantee
    from nearer.models._adapting import Adaptation
    from nearer.models._explain import Explanation
    from nearer.models._migrating import Migration


def _explorer() -> Any:
    """The explorer, by its entry point: it is a face, which uses models and which nothing in here may import."""
    for point in entry_points(group="nearer.faces", name="explorer"):
        return point.load()
    raise NearerError("The explorer was not found: nearer must be installed by pip, not only be on the path.")


@dataclass(eq=False)
class Model:
    """An encoder with what it takes, how it was learnt and what it scored.

    `transform`, `neighbors`, `index` and `evaluate` take what `nearer.fit` takes: a DataFrame (its columns are
    found by name), an array, a file, a folder. Near is Euclidean distance between embeddings.

    >>> from nearer.geometry import Mahalanobis
    >>> model = Model(Mahalanobis.from_factor([[2.0], [0.0]]), Inputs("features", size=(2,)), method="by hand")
    >>> model.transform([[1.0, 5.0]])
    array([[2.]], dtype=float32)
    """

    encoder: nn.Module
    inputs: Inputs
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """Name, fingerprint and counts of what it was learnt from."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """The comparison of raw features and learned metric on held-out items, as JSON."""
    command: str = ""
    """What to type to make it again."""
    baseline: nn.Module | None = None
    """The raw features that it is compared with: scaled by the training rows, or as they are."""
    trained_on: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    """A fingerprint of every row that it learned from."""
    summary: str = ""
    """What the fit has to tell: data, columns, method, scores and the verdict, for `print(model)`."""
    votes: Votes | None = field(default=None, repr=False)
    """What answers `predict`; None for a model of pairs."""
    calibration: SamePair | None = field(default=None, repr=False)
    """Which distances mean "same" and "different", with which promise; None until `calibrate`."""
    reference: Dataset | None = field(default=None, repr=False)
    """The data of the fit, while the model is in memory; it is not saved."""
    fitted: Any = field(default=None, repr=False)
    """How the fit went (`Fitted`), while the model is in memory: what the model card is made of."""
    place: Path | None = field(default=None, repr=False, compare=False)
    """The folder that it was saved in or loaded from; an index that it makes remembers it."""

    def __repr__(self) -> str:
        size = "×".join(map(str, self.inputs.size))
        return f"Model({self.method}, {self.inputs.kind} {size}, {self.data.get('name', 'no data')})"

    def __str__(self) -> str:
        return self.summary or repr(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the scores beside the raw features, the summary, and the map while the model has
        the data of its fit.
        """
        from nearer.evaluation import Comparison

        scores = Comparison.from_dict(self.scores)._repr_html_() if self.scores else ""
        told = f"<details><summary>{html.escape(repr(self))}</summary><pre>{html.escape(str(self))}</pre></details>"
        drawn = "" if self.reference is None else str(_explorer().inline_map(self))
        return scores + told + drawn

    @property
    def fingerprint(self) -> str:
        """What the embeddings of items depend on, as 16 letters: the encoder, its numbers and what it takes.

        An index keeps it and refuses the embeddings of another model. Labels, scores and how the model was made do
        not count, nor does a map of queries alone: two models with one fingerprint can search one index.
        """
        inputs = self.inputs.to_dict()
        about = {name: inputs[name] for name in ("kind", "names", "size", "cleaning", "text")}
        encoder = self.encoder.database_encoder if isinstance(self.encoder, TwoEncoders) else self.encoder
        about |= {"front": inputs["encoder"], "encoder": description(encoder)}  # type: ignore[arg-type]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
        for name, tensor in sorted(encoder.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            # A counter of batch normalisation has no dimension, and its bytes could not be seen.
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def asymmetric(self) -> bool:
        """Whether queries and the items that are searched in have maps of their own."""
        return isinstance(self.encoder, TwoEncoders)

    @property
    def database_map(self) -> Callable[[Any], NDArray[np.float32]] | None:
        """How an asymmetric model embeds the items that are searched in; None where that is `transform`."""
        return partial(self.transform, side="database") if self.asymmetric else None

    def transform(
        self, items: Any, *, side: Literal["queries", "database"] = "queries", batch_size: int = 512
    ) -> NDArray[np.float32]:
        """The embeddings of items, (n, ...) -> (n, d); nearness is Euclidean distance between them.

        `side` matters to an asymmetric model alone: "database" is for the items that are searched in.
        """
        check_choice(side, "side", ["queries", "database"])
        encoder = self.encoder
        if isinstance(encoder, TwoEncoders):
            encoder = encoder.query_encoder if side == "queries" else encoder.database_encoder
        rows = embed(encoder, torch.from_numpy(self.features(items, raw=False)), batch_size=batch_size)
        return rows.cpu().numpy().astype(np.float32, copy=False)

    def features(self, items: Any, *, raw: bool = True) -> NDArray[np.float32]:
        """What the encoder takes: the cleaned columns of a table in their order, or images of one size.

        Without `raw` a fine-tuned encoder leaves the columns of the one that it came from at 0, in half of the
        time.
        """
        if isinstance(items, np.ndarray | torch.Tensor) and tuple(items.shape[1:]) == self.inputs.size:
            return as_tensor(items, "items").to(torch.float32).contiguous().numpy()
        inputs = self.inputs
        if not raw and inputs.encoder is not None:
            inputs = replace(inputs, encoder=inputs.encoder.without_raw())
        return inputs.of(inputs.read(items))

    def raw(self, items: Any) -> NDArray[np.float32]:
        """The features that the learned metric is compared with, the same function wherever it is asked."""
        rows = self.features(items)
        if self.baseline is None:
            return rows.reshape(len(rows), -1)
        return embed(self.baseline, torch.from_numpy(rows)).cpu().numpy().astype(np.float32, copy=False)

    def embed(
        self, data: Dataset, part: str = "all", *, side: Literal["queries", "database"] = "queries"
    ) -> NDArray[np.float32]:
        """The embeddings of a data set, its columns found by name."""
        return self.transform(self.inputs.of(data, part), side=side)

    def index(self, data: Any = None, *, kind: SearchKind | None = None) -> Index:
        """An index of items to search in, with their labels, ids and kept columns; by default of the data of the
        fit.
        """
        given = self._database(data)
        rows = self.embed(given, side="database")
        from nearer.index import Index

        index = Index(rows.shape[1], similarity="euclidean", kind=kind)
        extra = given.all.extra
        index.add(rows, ids=extra["id"].tolist() if "id" in extra else None, metadata=item_metadata(given))
        return index

    def neighbors(self, items: Any, k: int = 5, *, database: Any = None) -> SearchResult:
        """The k nearest items of the database for each item; the database is by default the data of the fit."""
        index = self.index(database)
        return index.search(self.transform(items), k=min(check_int(k, "k"), len(index)))

    def predict(self, items: Any) -> NDArray[Any]:
        """The class of every item (n,), its labels as 0 and 1 (n, q), their shares (n, q), or its number (n,).

        By the nearest rows of the fit, as many as suit its rows; a map that knows class probabilities is asked for
        them. With few labels all rows vote, by the class that reaches them over the graph of their neighbors.
        """
        return predict(self, items)

    def predict_proba(self, items: Any) -> NDArray[Any]:
        """The share of every class, (n, c), columns as in `classes`; of label sets the score of every label."""
        return predict_proba(self, items)

    def score(self, data: Any, y: Any = None) -> float:
        """How well it predicts: accuracy, average precision of label sets, cosine of distributions, or R²."""
        return score(self, data, y)

    def explain(self, query: Any, item: Any) -> Explanation:
        """What makes one query and one item near or far: the squared distance by column or pixel, and by direction.

        Exact for linear metrics; for networks by integrated gradients, with what their sum misses. Near items have
        small parts everywhere: `explain(query, item).top()` names the largest, `.figure()` draws them.

        >>> from nearer.geometry import Mahalanobis
        >>> model = Model(Mahalanobis.from_factor([[2.0], [0.0]]), Inputs("features", size=(2,)), method="by hand")
        >>> model.explain([[1.0, 5.0]], [[0.0, 9.0]]).top(1)
        [('column 0', 4.0)]
        """
        from nearer.models._explain import explain_pair

        names = self.inputs.names if self.inputs.kind == "features" else ()
        return explain_pair(self.encoder, self.features(query), self.features(item), names)

    def align(self, where: str | os.PathLike[str], items: Any, y: Any = None, *, ids: Any = None) -> Migration:
        """How an index of another encoder can be kept behind this model: `.verdict` says what moving its embeddings
        keeps, `.apply()` moves them, in one step and with a way back.

        Args:
            where: the folder or address of the index.
            items: some hundred to thousand of its items, for this model to embed.
            y: their labels, if there are any: then recall@1 says what embedding everything again would gain.
            ids: their names in the index; by default the ids of the items, or all items in the order of the index.
        """
        from nearer.models._migrating import align

        return align(self, where, items, y, ids=ids)

    def adapt(self, where: str | os.PathLike[str], queries: Any, documents: Sequence[Any]) -> Adaptation:
        """Learn how queries should be mapped before they search an index of this model, which stays as it is:
        `.verdict` says what that gains on pairs that did not teach it, `.model` is the model that does it.

        Args:
            where: the folder or address of the index.
            queries: some hundred or thousand queries, as `transform` takes them.
            documents: for each of them the id of the item that belongs to it: what was clicked, say.
        """
        from nearer.models._adapting import adapt

        return adapt(self, where, queries, documents)

    def calibrate(
        self,
        data: Any,
        y: Any = None,
        *,
        error: float = 0.05,
        miss: float | None = None,
        guarantee: Guarantee = "estimated",
        copies: Any = None,
    ) -> SamePair:
        """Find the distances that mean "same" and "different" from labelled items of classes it did not learn from.

        The promise is about classes never seen, so rows that the model was trained on are refused. Without labels
        it is about items drawn at random, and `copies`, a near-copy of every item, say how many copies are missed.
        The result is kept with the model and saved with it; see `judging.SamePair`.
        """
        if self.asymmetric:
            raise ParameterError("`calibrate` needs a model with one map: same is symmetric, and this one is not.")
        given = self.inputs.read(data, y)
        if given.all.y.ndim != 1 or given.kind not in ("classes", "partial"):
            raise LabelError(f"`y` must hold classes to calibrate with, got {given.kind}.")
        items = self.inputs.of(given)
        taught = int(self.seen(items).sum())
        if taught:
            raise LabelError(
                f"The data must hold items of other classes than the model learned from, and it was trained on "
                f"{taught} of these {len(items)} rows. Keep some classes for calibration."
            )
        from nearer.judging import SamePair

        decision = SamePair(error, miss=miss, guarantee=guarantee)
        labels = given.all.y if (given.all.y >= 0).any() else None
        beside = None if copies is None else self.transform(copies)
        self.calibration = decision.calibrate(self.transform(items), labels, copies=beside)
        return self.calibration

    def same(self, a: Any, b: Any) -> NDArray[Any]:
        """For item i of `a` and of `b`: "same", "different" or "cannot say", an array of words (n,)."""
        if self.calibration is None:
            raise ParameterError("`calibrate` must come first: nothing says yet which distance means the same.")
        return self.calibration.decide(self.transform(a), self.transform(b))

    def report(self, path: str | os.PathLike[str], *, interactive: bool = False) -> Path:
        """Write one HTML page: the verdict, the scores with intervals, a map, the columns, how to use it.

        With `interactive` it is the map of the explorer as one file, to send to someone: hover, neighbors, colors,
        before and after, without a server.
        """
        if interactive:
            return Path(_explorer().write_map(self, path))
        from nearer.models._report import write_report

        return write_report(self, path)

    def to_torch(self) -> nn.Sequential:
        """The model as plain torch layers, from raw items to embeddings, for programs without nearer."""
        from nearer.models._export import plain

        return plain(self)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the model for programs without nearer, by the ending of the file.

        `.onnx` has the input `items` (n, ...) and the output `embeddings` (n, d), n free, and needs `pip install
        'nearer[onnx]'`; `.safetensors` is the state dictionary of `to_torch()`.

        Args:
            path: the file to write.
        """
        from nearer.models._export import export

        return export(self, path)

    def to_mteb(self, name: str = "nearer/model") -> Any:
        """The model as `mteb.evaluate` takes it: texts or photos in, minus the Euclidean distance as similarity.

        Needs the extra "mteb".

        Args:
            name: owner/name under which MTEB writes its results.
        """
        from nearer.models._mteb import MTEBEncoder

        return MTEBEncoder(self, name)

    def explore(
        self,
        data: Any = None,
        y: Any = None,
        *,
        project: str | os.PathLike[str] | None = None,
        port: int = 0,
        browser: bool = True,
    ) -> Any:
        """Open the map of the data of the fit, or of other data, in a page of this machine, to look and to correct.

        What is said there is kept in the folder `project`, by default a temporary one; `model.apply(project)`
        learns from it. The page is served by a thread until `.close()`; its address is `.url`.
        """
        return _explorer().explore_model(self, data, y, project=project, port=port, browser=browser)

    def suggest_pairs(self, n: int = 10, *, data: Any = None, y: Any = None) -> list[tuple[int, int]]:
        """The pairs of rows to ask a person about next: an unsure row, and the row to compare it with."""
        return list(_explorer().suggest_pairs(self, n, data, y))

    def apply(self, gestures: Any, *, data: Any = None, y: Any = None) -> Model:
        """A new model that has learned from gestures: a project folder, a file that the page exported, or a list.

        Gestures are dictionaries such as {"kind": "label", "items": [3, 7], "label": "cat"}, {"kind": "together",
        "items": [...]}, {"kind": "apart", "items": [...]}, {"kind": "drop", "items": [...]}.
        """
        return _explorer().apply_gestures(self, gestures, data, y)

    def audit(self, data: Any = None, y: Any = None, *, seed: int = 0) -> Audit:
        """What is wrong with the data of the fit, or with other data: labels that are likely wrong,
        near-duplicates, classes that overlap, items unlike everything.
        """
        from nearer.models._auditing import audit_model

        return audit_model(self, data, y, seed=seed)

    def _database(self, data: Any) -> Dataset:
        if data is not None:
            return self.inputs.read(data)
        if self.reference is None:
            raise ParameterError(
                "`data` must say where to search: a model that was loaded does not have the data of its fit. "
                "Pass a table, an array or a folder."
            )
        return self.reference

    def seen(self, items: Any) -> NDArray[np.bool_]:
        """For each item whether the model was trained on exactly it, (n,)."""
        return np.isin(fingerprints(self.features(items)), self.trained_on)

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool = False,
        token: str | None = None,
        message: str = "Save a metric of nearer",
    ) -> str:
        """Write the model to the Hugging Face hub, where `nearer.load("hf://owner/name")` finds it; it needs the
        extra "hub".

        The card says in the words of the hub what it is, and its scores on held-out rows. A model also keeps rows
        of its fit for `predict` (`votes`), which become readable for whoever may read the repository.

        Args:
            name: owner/name of the repository, which is made if it is not there; `owner/name@branch` writes there.
            private: whether a new repository is private.
            token: of the hub; by default the one of `hf auth login` or HF_TOKEN.
            message: of the commit.
        """
        from nearer.models._hub import push

        return push(self, name, private=private, token=token, message=message)

    def save(self, path: str | os.PathLike[str], *, pages: Mapping[str, bytes] | None = None) -> Path:
        """Write the model folder, whole or not at all; `pages` are files for people, by default a card and a
        map.
        """
        from nearer.models._saved import save

        return save(self, path, pages)


def derived(model: Model, encoder: nn.Module, step: Mapping[str, Any], rows: NDArray[np.float32]) -> Model:
    """A model with another encoder, in whose parameters the step to it stands; `rows` taught that step too.

    What belongs to the model as it was goes: its folder, its command, and calibrated distances, which are those
    between two items of its space.
    """
    return replace(
        model,
        encoder=encoder,
        parameters={**model.parameters, **step},
        trained_on=np.union1d(model.trained_on, fingerprints(rows)),
        command="",
        calibration=None,
        fitted=None,
        place=None,
    )


def fingerprints(items: NDArray[np.float32]) -> NDArray[np.int64]:
    """A number for each row of items, equal for equal rows and for hardly any others."""
    rows = np.ascontiguousarray(items, dtype=np.float32).reshape(len(items), -1)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)

"""The contestants of the relation-alignment tables: raw features, RAML, HRAML, and the linear learners beside them.

A method is a list of candidates; which of them is used, and k, is decided on the training rows. A method "as
published" has `blend=0`: no share of the identity, where the plain name takes the share that the training rows ask
for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.pipeline import make_pipeline

from nearer.estimators import GMML, HRAML, ITML, LDML, LMNN, RAMLKRR, RAMLSVR
from nearer_papers.systems import ConstrainedRAMLKRR, DMLEig, DoubletSVM

__all__ = ["AS_PUBLISHED", "OURS", "RIVALS", "Candidate", "candidates"]

OURS = ("RAML-SVR", "RAML-KRR", "HRAML")
AS_PUBLISHED = ", as published"
_OTHERS: dict[str, Callable[..., Any]] = {
    "ITML": ITML,
    "LDML": LDML,
    "DSVM": DoubletSVM,
    "GMML": GMML,
    "DML-eig": DMLEig,
}
# LMNN has no blend: its only row is the published method.
RIVALS = (*[one + more for one in _OTHERS for more in ("", AS_PUBLISHED)], "LMNN")


@dataclass(frozen=True)
class Candidate:
    """Settings of a method: a name for the record, and the learner for a seed (None: the features as they are)."""

    name: str
    make: Callable[[int], Any]
    trial: Callable[[int], Any] | None = None  # a cheaper one to choose with

    def learner(self, seed: int, *, final: bool) -> Any:
        """A fresh learner; `final` for the one that is tested."""
        return self.make(seed) if final or self.trial is None else self.trial(seed)


def _hraml(name: str, quick: bool, **settings: Any) -> Candidate:
    epochs = 5 if quick else settings.pop("epochs", 60)
    networks = 1 if quick else settings.pop("networks", 3)
    settings.pop("epochs", None), settings.pop("networks", None)
    return Candidate(
        name,
        lambda seed: HRAML(**settings, epochs=epochs, networks=networks, random_state=seed),
        lambda seed: HRAML(**settings, epochs=epochs, networks=1, random_state=seed),
    )


def _after_krr(name: str, quick: bool, pairs: dict[str, Any], **settings: Any) -> Candidate:
    """A network with little dropout on the features that RAML-KRR, from such `pairs`, has stretched."""
    network = _hraml(name, quick, **settings, dropout=0.2, input_dropout=0.0)

    def stretched(seed: int, *, final: bool) -> Any:
        first = RAMLKRR(ridge=1.0, max_iter=50, random_state=seed, **pairs)
        return make_pipeline(first, network.learner(seed, final=final))

    return Candidate(name, lambda seed: stretched(seed, final=True), lambda seed: stretched(seed, final=False))


def _ridges(blend: float | str, *values: float) -> list[Candidate]:
    def make(seed: int, ridge: float) -> RAMLKRR:
        return RAMLKRR(ridge=ridge, blend=blend, random_state=seed)

    return [Candidate(f"ridge={ridge:g}", partial(make, ridge=ridge)) for ridge in values]


def _near_pairs(blend: float | str) -> list[Candidate]:
    """Pairs of near rows only, as published for classes; M cut to its positive part, or the best positive M."""

    def make(seed: int, kind: type[RAMLKRR]) -> RAMLKRR:
        return kind(ridge=1.0, n_neighbors=10, n_random=0, max_iter=50, blend=blend, random_state=seed)

    kinds = {"project": RAMLKRR, "constrained": ConstrainedRAMLKRR}
    return [Candidate(f"ridge=1, near pairs, {name}", partial(make, kind=kind)) for name, kind in kinds.items()]


def _many_pairs(blend: float | str) -> list[Candidate]:
    """Sixty pairs of each row, and differences of label sets that do not count what neither row has."""

    def make(seed: int, relation: str) -> RAMLKRR:
        return RAMLKRR(ridge=1.0, relation=relation, n_neighbors=30, n_random=30, blend=blend, random_state=seed)

    return [
        Candidate(f"ridge=1, {relation}, 60 pairs", partial(make, relation=relation))
        for relation in ("cosine", "jaccard")
    ]


def _tubes(blend: float | str) -> list[Candidate]:
    def make(seed: int, tube: dict[str, Any]) -> RAMLSVR:
        return RAMLSVR(**tube, blend=blend, random_state=seed)

    return [
        Candidate(" ".join(f"{key}={value:g}" for key, value in tube.items()), partial(make, tube=tube))
        for tube in ({"C": 1.0}, {"C": 1.0, "nu": 0.5})
    ]


def _published_network(columns: int) -> Candidate:
    """The settings of the released code: one network as wide as its input, plain descent, targets as they are."""

    def make(seed: int) -> HRAML:
        return HRAML(
            columns,
            hidden=(100,),
            scale="none",
            networks=1,
            epochs=20,
            batch_size=40,
            optimizer="sgd",
            lr=1e-2,
            dropout=0.0,
            input_dropout=0.0,
            bounded=True,
            spread=0.2,
            standardize=False,
            random_state=seed,
        )

    return Candidate("the released settings", make)


def candidates(
    kind: str, method: str, *, rows: int, columns: int, labels: int = 0, quick: bool = False
) -> list[Candidate]:
    """What a method may choose from, for one kind of labels, training rows of so many columns, and label columns.

    >>> [one.name for one in candidates("sets", "RAML-KRR", rows=100, columns=9, quick=True)]
    ['ridge=0.1']
    """
    if method == "raw features":
        return [Candidate("none", lambda seed: None)]
    if method == "LMNN":
        return [Candidate("defaults", lambda seed: LMNN(random_state=seed))]
    name = method.removesuffix(AS_PUBLISHED)
    blend = "auto" if name == method else 0.0
    if name in _OTHERS:
        settings = "defaults" if name == method else "blend=0"
        return [Candidate(settings, lambda seed: _OTHERS[name](blend=blend, random_state=seed))]
    if name == "RAML-KRR":
        if quick:
            return _ridges(blend, 0.1)
        more = {"classes": _near_pairs, "sets": _many_pairs}
        return _ridges(blend, 0.1, 1.0, 10.0) + (more[kind](blend) if kind in more else [])
    if name == "RAML-SVR":
        return _tubes(blend)[: 1 if quick else None]
    return [_published_network(columns)] if name != method else _networks(kind, rows, labels, quick)


def _networks(kind: str, rows: int, labels: int, quick: bool) -> list[Candidate]:
    if kind == "classes":
        # Principal components have their own scale; giving all the same would make noise loud.
        epochs = 60 if rows < 3000 else 30
        shared = {"standardize": False, "hidden": (500,), "epochs": epochs}
        near = {"n_neighbors": 10, "n_random": 0}
        found = [_hraml("much dropout", quick, **shared), _after_krr("after RAML-KRR", quick, near, **shared)]
    elif kind == "sets":
        found = [
            _hraml("l1", quick, epochs=60, networks=8, input_dropout=0.5, weight_decay=0.3),
            _hraml("cosine, affine", quick, epochs=60, networks=8, relation="cosine", scale="affine"),
            _hraml("jaccard", quick, epochs=40, networks=3, relation="jaccard"),
        ]
        # With many labels, of which few are on, 4/q times L1 is next to nothing for every pair.
        found = found[2:] if labels > 50 else found[:2]
    else:
        shared = {"hidden": (400,), "epochs": 40}
        found = [_hraml("l1", quick, **shared), _after_krr("after RAML-KRR", quick, {}, **shared)]
    return found[:1] if quick else found

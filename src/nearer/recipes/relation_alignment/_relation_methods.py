"""The contestants of the relation-alignment tables: raw features, RAML, HRAML, and the linear learners beside them.

A method is a list of candidates; which of them is used, and k, is decided on the training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import make_pipeline

from nearer.estimators import GMML, HRAML, ITML, LDML, LMNN, RAMLKRR, RAMLSVR, DMLEig, DoubletSVM

__all__ = ["OURS", "Candidate", "candidates"]

OURS = ("RAML-SVR", "RAML-KRR", "HRAML")
_OTHERS: dict[str, Callable[[int], Any]] = {
    "ITML": lambda seed: ITML(random_state=seed),
    "LDML": lambda seed: LDML(random_state=seed),
    "LMNN": lambda seed: LMNN(random_state=seed),
    "DSVM": lambda seed: DoubletSVM(random_state=seed),
    "GMML": lambda seed: GMML(random_state=seed),
    "DML-eig": lambda seed: DMLEig(random_state=seed),
}


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


def _after_krr(name: str, quick: bool, **settings: Any) -> Candidate:
    """A network with little dropout on the features that RAML-KRR has stretched."""
    network = _hraml(name, quick, **settings, dropout=0.2, input_dropout=0.0)

    def stretched(seed: int, *, final: bool) -> Any:
        first = RAMLKRR(ridge=1.0, n_neighbors=10, n_random=0, max_iter=50, random_state=seed)
        return make_pipeline(first, network.learner(seed, final=final))

    return Candidate(name, lambda seed: stretched(seed, final=True), lambda seed: stretched(seed, final=False))


def _ridges(*values: float) -> list[Candidate]:
    return [
        Candidate(f"ridge={ridge:g}", lambda seed, ridge=ridge: RAMLKRR(ridge=ridge, random_state=seed))  # type: ignore[misc]
        for ridge in values
    ]


def _near_pairs() -> list[Candidate]:
    """Pairs of near rows only, as published for classes; M cut to its positive part, or the best positive M."""
    found = []
    for psd in ("project", "constrained"):

        def make(seed: int, psd: str = psd) -> RAMLKRR:
            return RAMLKRR(ridge=1.0, n_neighbors=10, n_random=0, psd=psd, max_iter=50, random_state=seed)

        found.append(Candidate(f"ridge=1, near pairs, {psd}", make))
    return found


def _many_pairs() -> list[Candidate]:
    """Sixty pairs of each row, and differences of label sets that do not count what neither row has."""
    found = []
    for relation in ("cosine", "jaccard"):

        def make(seed: int, relation: str = relation) -> RAMLKRR:
            return RAMLKRR(ridge=1.0, relation=relation, n_neighbors=30, n_random=30, random_state=seed)

        found.append(Candidate(f"ridge=1, {relation}, 60 pairs", make))
    return found


def candidates(kind: str, method: str, *, rows: int, labels: int = 0, quick: bool = False) -> list[Candidate]:
    """What a method may choose from, for one kind of labels, a number of training rows and of label columns.

    >>> [one.name for one in candidates("sets", "RAML-KRR", rows=100, quick=True)]
    ['ridge=0.1']
    """
    if method == "raw features":
        return [Candidate("none", lambda seed: None)]
    if method in _OTHERS:
        return [Candidate("defaults", _OTHERS[method])]
    if method == "RAML-KRR":
        if quick:
            return _ridges(0.1)
        more = {"classes": _near_pairs, "sets": _many_pairs}
        return _ridges(0.1, 1.0, 10.0) + (more[kind]() if kind in more else [])
    if method == "RAML-SVR":
        tubes: list[dict[str, Any]] = [{"C": 1.0}, {"C": 1.0, "nu": 0.5}]
        return [
            Candidate(
                " ".join(f"{key}={value:g}" for key, value in tube.items()),
                lambda seed, tube=tube: RAMLSVR(**tube, random_state=seed),  # type: ignore[misc]
            )
            for tube in (tubes[:1] if quick else tubes)
        ]
    return _networks(kind, rows, labels, quick)


def _networks(kind: str, rows: int, labels: int, quick: bool) -> list[Candidate]:
    if kind == "classes":
        # Principal components have their own scale; giving all the same would make noise loud.
        epochs = 60 if rows < 3000 else 30
        shared = {"standardize": False, "hidden": (500,), "epochs": epochs}
        found = [_hraml("much dropout", quick, **shared), _after_krr("after RAML-KRR", quick, **shared)]
    elif kind == "sets":
        found = [
            _hraml("l1", quick, epochs=60, networks=8, input_dropout=0.5, weight_decay=0.3),
            _hraml("cosine, affine", quick, epochs=60, networks=8, relation="cosine", scale="affine"),
            _hraml("jaccard", quick, epochs=40, networks=3, relation="jaccard"),
        ]
        # With many labels, of which few are on, 4/q times L1 is next to nothing for every pair.
        found = found[2:] if labels > 50 else found[:2]
    else:
        found = [_hraml("l1", quick, hidden=(400,), epochs=40)]
    return found[:1] if quick else found

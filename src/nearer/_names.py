"""Which of our names was meant by another one: a slip, other capitals, or the word of another library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Names of pytorch-metric-learning, sentence-transformers, metric-learn, scikit-learn and of papers, without `Loss`.
ELSEWHERE = {
    "batchalltriplet": "losses.TripletLoss",
    "batchhardsoftmargintriplet": "losses.BatchHardTripletLoss",
    "batchsemihardtriplet": "losses.SemiHardTripletLoss",
    "cosinecontrastive": "losses.ContrastiveLoss",
    "generalizedliftedstructure": "losses.GeneralizedLiftedLoss",
    "largemargincosine": "losses.AMSoftmaxLoss",
    "additiveangularmargin": "losses.ArcFaceLoss",
    "multiplenegativesranking": "losses.InfoNCELoss",
    "onlinecontrastive": "losses.DistanceContrastiveLoss",
    "supervisedcontrastive": "losses.SupConLoss",
    "tripletmargin": "losses.TripletLoss",
    "tripletsemihard": "losses.SemiHardTripletLoss",
    "batchhardminer": "mining.BatchHard",
    "distanceweightedminer": "mining.DistanceWeighted",
    "multisimilarityminer": "mining.VTHM",
    "tripletmarginminer": "mining.SemiHardTriplets",
    "mperclasssampler": "training.ClassSampler",
    "itmlsupervised": "estimators.ITML",
    "lineardiscriminantanalysis": "estimators.LDA",
    "lsmlsupervised": "estimators.LSML",
    "mmcsupervised": "estimators.MMC",
    "neighborhoodcomponentsanalysis": "estimators.NCA",
    "kneighborsclassifier": "estimators.MetricKNN",
    "rcasupervised": "estimators.RCA",
}


def _key(name: str) -> str:
    """A name without what people write differently."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def elsewhere(name: str) -> str | None:
    """Our name, with its package, for one of another library.

    >>> elsewhere("TripletMarginLoss"), elsewhere("RCA_Supervised"), elsewhere("x")
    ('losses.TripletLoss', 'estimators.RCA', None)
    """
    return ELSEWHERE.get(_key(name), ELSEWHERE.get(_key(name).removesuffix("loss")))


def meant(name: object, options: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The option that was probably meant, None if none is near.

    >>> meant("RawLoss", ["RowLoss", "RAWLoss"]), meant("TripletMarginLoss", ["MarginLoss", "TripletLoss"])
    ('RAWLoss', 'TripletLoss')
    >>> meant("lmnm", ["lmnn"]), meant("zzz", ["lmnn"])
    ('lmnn', None)
    """
    keys: dict[str, str] = {}
    for option in options:
        keys.setdefault(_key(option), option)
    ours = _key((elsewhere(str(name)) or "").partition(".")[2])
    if ours in keys:
        return keys[ours]
    near = difflib.get_close_matches(_key(str(name)), keys, n=1, cutoff=cutoff)
    return keys[near[0]] if near else None


def hint(name: object, options: Iterable[str], *, otherwise: str = "") -> str:
    """A sentence with the option that was probably meant, to end a message with.

    >>> hint("metod", ["method"])
    " Did you mean 'method'?"
    """
    near = meant(name, options)
    return f" Did you mean {near!r}?" if near is not None else otherwise and f" {otherwise}"

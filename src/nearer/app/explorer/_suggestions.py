"""One queue of what a person should look at: doubtful labels, questions, near-duplicates, outliers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearer._plain import Array
from nearer.app.explorer._metric import Progress
from nearer.app.explorer._session import Session
from nearer.app.explorer._state import nearest_to

MOST_LISTED, MOST_ASKED = 300, 10
ALTERNATIVES, EXAMPLES = 3, 3


def suggestions(session: Session, progress: Progress = lambda text, share: None) -> dict[str, Any]:
    """The queue, most doubtful labels first, without what a person has already judged; and classes that overlap."""
    audit, said, rows = session.audit(progress), session.supervision, session.audited
    judged = (said.confirmed | said.dropped)[rows]
    entries = [
        {
            "kind": "label",
            "cards": [session.card(int(rows[row]))],
            "alternatives": [audit.name(code) for code in _likelier(audit.probabilities[row], audit.labels[row])],
        }
        for row in _doubtful(audit.quality, audit.suggested, audit.labels)
        if not judged[row]
    ][:MOST_LISTED]
    entries += [
        {
            "kind": "question",
            "cards": [session.card(asked["item"]), session.card(asked["other"])],
            "alternatives": [session.classes[asked["guess"]]] if asked["guess"] >= 0 else [],
        }
        for asked in session.questions(MOST_ASKED)
        if asked["item"] != asked["other"]
    ]
    for kind, groups in (
        ("duplicates", audit.duplicates),
        ("outlier", [audit.unlike[[i]] for i in range(len(audit.unlike))]),
    ):
        entries += [
            {
                "kind": kind,
                "cards": [session.card(int(rows[row])) for row in group[:6].tolist()],
                "alternatives": [],
            }
            for group in groups[:MOST_LISTED]
            if not judged[group].all()
        ]
    best, overlaps = audit.suggested, []
    for a, b, share in audit.overlaps[:12]:
        mixed = ((audit.labels == a) & (best == b)) | ((audit.labels == b) & (best == a))
        overlaps.append({"first": audit.name(a), "second": audit.name(b), "share": share,
                         "items": rows[np.flatnonzero(mixed)].tolist()})  # fmt: skip
    notes = list(audit.notes)
    if len(rows) < session.items.n:
        notes.append(f"{len(rows):,} of {session.items.n:,} items were looked at, drawn at random.")
    return {"entries": entries, "overlaps": overlaps, "notes": notes}


def _doubtful(quality: Array, best: Array, labels: Array) -> list[int]:
    """Rows for which another class is likelier than their own, worst first.

    The audit also asks that the other class is as likely as it usually is for its own rows. Who looks at what is
    shown needs no such care, and of 20 wrong labels among 600 photos it would hide a third.
    """
    rows = np.flatnonzero((labels >= 0) & (best != labels) & np.isfinite(quality))
    return [int(row) for row in rows[np.argsort(quality[rows], kind="stable")]]


def _likelier(probabilities: Array, label: int) -> list[int]:
    order = np.argsort(-probabilities, kind="stable")
    return [int(code) for code in order if code != label and probabilities[code] > 0][:ALTERNATIVES]


def examples(session: Session, item: int, label: str) -> list[dict[str, Any]]:
    """The items of a class that lie nearest to an item in the raw features; an unknown class has none."""
    said = session.supervision
    if label not in said.classes:
        return []
    among = (said.labels == said.classes.index(label)) & ~said.dropped
    near, _ = nearest_to(session.items.raw, item, EXAMPLES, among=among)
    return [session.card(int(other)) for other in near]

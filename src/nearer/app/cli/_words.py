"""Messages of the library in the words of the command line: options instead of the arguments of Python."""

from __future__ import annotations

import re

__all__ = ["OPTIONS", "in_options"]

# What the library says to those who write Python, and how it is done from here.
_SENTENCES = (
    (" Pass `dimension` to make one.", " Make one: nearer index DATA --model MODEL --out {place}."),
    (", or open it with read_only=True.", "; a search needs no such lock."),
    ("are in `model.scores`", "are in its README.md"),
    ("`target` must", "`--out` must"),
    ("`ids` must", "The ids of the rows must"),
    ("`y` must", "The labels (`--label`) must"),
    ("`X` must", "The data must"),
    ("`where", "`--where"),
    ("`k` must", "`-k` must"),
)
# Arguments and settings that are options of the same name.
OPTIONS = (
    "batch_size", "budget", "chunk", "encoder", "epochs", "error", "features", "guarantee", "held_out", "hidden",
    "ignore", "label", "loss", "lr", "method", "miss", "n_components", "patience", "precision",
    "rows", "score", "seed", "split", "text", "threshold", "unreadable", "workers",
)  # fmt: skip


def in_options(text: str) -> str:
    """A message as someone in a terminal can follow it.

    >>> in_options("`target` must be a new index, `items` has items already.")
    '`--out` must be a new index, `items` has items already.'
    >>> in_options("`n_components` must be at least 1, got 0.")
    '`--n-components` must be at least 1, got 0.'
    """
    quoted = re.match("`([^`]*)`", text)
    for python, words in _SENTENCES:
        text = text.replace(python, words.format(place=quoted[1] if quoted else "INDEX"))
    # Only what must be otherwise is an option of this command; a setting in a file keeps its name.
    return re.sub(
        rf"`({'|'.join(OPTIONS)})`(?=,? (?:must|and `))", lambda named: f"`--{named[1].replace('_', '-')}`", text
    )

"""Why two items are near, in a few words: what they both say, or the columns that agree and that differ most."""

from __future__ import annotations

import re

import numpy as np

from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._state import State


def why_near(items: ShownItems, state: State, item: int, other: int) -> str:
    """The words that two texts share, or the columns of two rows that agree and that part them under a metric."""
    if items.texts is not None:
        words = [content_words(str(items.texts[row])) for row in (item, other)]
        shared = sorted((words[0] & words[1]), key=lambda word: (-len(word), word))[:4]
        return f"both say {', '.join(shared)}" if shared else "no word in common"
    names = items.feature_names
    if not names or len(names) != items.raw.shape[1]:
        return ""
    difference = items.raw[item] - items.raw[other]
    part = np.square(difference)
    metric, base = state.metric, state.base
    if metric is not None and base.rows is items.raw:
        # d² = Σ_f δ_f (A δ)_f: what each column adds to the distance.
        full = base.axes @ metric.matrix
        part = difference * (full @ (full.T @ difference))
    usual = np.maximum(2 * items.raw.var(axis=0), 1e-12)
    order = np.argsort(np.square(difference) / usual)
    agree = [names[column] for column in order[:2]]
    return f"agree on {' and '.join(agree)}; most apart in {names[int(np.argmax(part))]}"


def content_words(text: str) -> set[str]:
    """The words of a text that say something.

    >>> sorted(content_words("When will my card arrive? My card is lost."))
    ['arrive', 'card', 'lost']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return set(re.findall(r"\w{2,}", text.lower())) - ENGLISH_STOP_WORDS

"""Short questions to a bank, by what is wanted: learn from 64 of them, route what nobody has asked in these words.

The encoder is a plain one of scikit-learn. With `pip install 'nearer[text]'` leave `encoder=` out, and a trained
sentence encoder takes its place.

Run: python examples/text_intents.py
"""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

import nearer

# %% Sentences: four intents, each with a few ways to say it, and words that say nothing
WAYS = {
    "lost card": ["I lost my card", "my card was stolen", "I cannot find my card", "someone took my bank card"],
    "exchange": [
        "what is the exchange rate",
        "how much is a euro in dollars",
        "do you change money",
        "the rate for yen",
    ],
    "transfer": [
        "send money to a friend",
        "I want to transfer money",
        "how do I pay someone",
        "my transfer is late",
    ],
    "pin": ["I forgot my pin", "how do I change my pin", "my pin is blocked", "unblock the pin code"],
}
BEFORE = ["hello,", "good morning,", "please help:", "a question:"]
AFTER = ["thank you", "as soon as possible", "please", "kind regards"]
asked = [
    (f"{before} {way} {after}", intent)
    for intent, ways in WAYS.items()
    for way, (before, after) in zip(ways * 4, itertools.product(BEFORE, AFTER), strict=False)
]
texts, intents = [text for text, _ in asked], np.array([intent for _, intent in asked])

# %% Letters in a row, hashed: words that share a stem share columns
hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=512, alternate_sign=False)


def encode(lines) -> np.ndarray:
    """A list of texts in, rows out."""
    return hashed.transform(lines).toarray()


# %% Learn what matters, and route new questions by their nearest neighbors
model = nearer.fit(texts, intents, encoder=encode, method="within-class")
print(model)
new = {
    "good evening, my card has been stolen": "lost card",
    "could you transfer 20 to my friend": "transfer",
    "today's exchange rate for the euro?": "exchange",
    "the pin code of mine is blocked": "pin",
}
right = 0
for text, wanted in new.items():
    near = [hit.metadata["label"] for hit in model.neighbors([text], k=5)[0]]
    found = max(set(near), key=near.count)
    right += found == wanted
    print(f"{text!r}: {found}")
assert right == len(new)

"""A model inside MTEB, which scores it on a task of a dozen texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nearer
from nearer.exceptions import ParameterError
from nearer.models import Model

WORDS = {
    "pets": ["cat", "dog", "hamster", "rabbit", "parrot"],
    "tools": ["saw", "hammer", "drill", "pliers", "axe"],
}
TEXTS = [f"{how} {word}" for words in WORDS.values() for word in words for how in ("a small", "my old")]
LABELS = [name for name, words in WORDS.items() for _ in words for _ in range(2)]


def letters(texts: list[str]) -> np.ndarray:
    """How often each letter is there: features of texts that need no package."""
    return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)


def learned() -> Model:
    return nearer.fit(TEXTS, LABELS, encoder=letters, method="within-class")


def test_features_have_no_task() -> None:
    model = nearer.fit(letters(TEXTS), LABELS, method="lda")
    with pytest.raises(ParameterError, match="`to_mteb` needs a model of texts or of photos"):
        model.to_mteb()


def test_mteb_takes_the_model_and_scores_it() -> None:
    mteb = pytest.importorskip("mteb", reason="needs the package mteb")
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    from datasets import Dataset

    class Words(AbsTaskRetrieval):  # type: ignore[misc]
        metadata = mteb.TaskMetadata(
            name="Words",
            description="Texts of one kind.",
            reference=None,
            dataset={"path": "none/none", "revision": "1"},
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
            date=("2020-01-01", "2020-01-02"),
            domains=["Written"],
            task_subtypes=[],
            license="cc0-1.0",
            annotations_creators="derived",
            dialect=[],
            sample_creation="created",
            bibtex_citation="",
        )

        def load_data(self, **others: Any) -> None:
            names = [str(number) for number in range(len(TEXTS))]
            of_kind = {label: [name for name in names if LABELS[int(name)] == label] for label in LABELS}
            queries = Dataset.from_dict({"id": [f"q{name}" for name in names], "text": TEXTS})
            corpus = Dataset.from_dict({"id": names, "text": TEXTS, "title": [""] * len(TEXTS)})
            relevant = {
                f"q{name}": {other: 1 for other in of_kind[LABELS[int(name)]] if other != name} for name in names
            }
            split = {"queries": queries, "corpus": corpus, "relevant_docs": relevant, "top_ranked": None}
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    model = learned()
    wrapped = model.to_mteb("team/letters")
    assert isinstance(wrapped, mteb.models.EncoderProtocol)
    scores = mteb.evaluate(wrapped, [Words()], cache=None, show_progress_bar=False)[0].scores["test"][0]
    rows = model.transform(TEXTS)
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.testing.assert_allclose(wrapped.similarity(rows, rows).numpy(), -distances, atol=1e-4)
    np.testing.assert_allclose(wrapped.similarity_pairwise(rows, rows[::-1].copy()).numpy(), -distances[
        range(len(rows)), range(len(rows))[::-1]], atol=1e-4)  # fmt: skip
    # Among its ten nearest, itself included, the share of the nine others of its kind.
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :10]
    kind = np.array(LABELS)
    hits = (kind[nearest] == kind[:, None]) & (nearest != np.arange(len(kind))[:, None])
    assert scores["recall_at_10"] == pytest.approx((hits.sum(axis=1) / 9).mean(), abs=1e-4)

"""The index against a list that is sorted anew for every query, whatever was added and removed before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from numpy.typing import NDArray

from nearer.exceptions import NearerWarning, NotFiniteError, ParameterError, ShapeError
from nearer.geometry import AsymmetricMap, cosine_similarity, euclidean_distance
from nearer.geometry._similarity import dot_product
from nearer.index import HNSW, IVF, IVFPQ, Exact, Index
from nearer.neighbors._shared import Similarity

Floats = NDArray[np.float32]
KINDS = [Exact(), HNSW(), IVF(probes=8), IVFPQ(probes=8, bytes=8)]


def filled(x: Any, **options: Any) -> Index:
    index = Index(np.shape(x)[1], **{"similarity": "cosine", **options})
    index.add(x)
    return index


# An inner product is no distance: an approximate structure measures its recall and promises none.
@pytest.mark.parametrize(
    ("kind", "similarity"),
    [(kind, similarity) for kind in KINDS for similarity in ("cosine", "euclidean")] + [(Exact(), "dot")],
    ids=str,
)
def test_every_kind_finds_what_the_geometry_says(
    easy: Floats, new: Floats, kind: Exact | HNSW | IVF, similarity: Similarity
) -> None:
    index = filled(easy, similarity=similarity, kind=kind)
    result = index.search(new, k=5)
    scores = {
        "cosine": lambda: cosine_similarity(new, easy),
        "dot": lambda: dot_product(new, easy),
        "euclidean": lambda: -euclidean_distance(new, easy),
    }[similarity]()
    values, ids = scores.topk(5)
    assert float((torch.from_numpy(result.ids) == ids).float().mean()) > 0.99
    np.testing.assert_allclose(result.similarities[:, 0], values[:, 0].numpy(), rtol=1e-4, atol=1e-5)
    assert (np.diff(result.similarities) <= 0).all()


class IndexAgainstList(RuleBasedStateMachine):
    """Any order of adding and removing leaves an index that answers like a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Index(2, similarity="euclidean")
        self.rows: dict[int, tuple[float, float]] = {}
        self.next = 0

    @rule(points=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=5))
    def add(self, points: list[tuple[int, int]]) -> None:
        ids = self.index.add(np.array(points, dtype=np.float64).reshape(-1, 2))
        assert ids == list(range(self.next, self.next + len(points)))
        self.rows |= dict(zip(ids, [(float(a), float(b)) for a, b in points], strict=True))  # type: ignore[arg-type]
        self.next += len(points)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True)) if self.rows else []
        assert self.index.remove(gone) == len(gone)
        for one in gone:
            del self.rows[one]

    @invariant()
    def answers_like_a_list(self) -> None:
        assert len(self.index) == len(self.rows)
        assert self.index.ids == list(self.rows)
        found = self.index.search([[0.5, 0.25]], k=4)
        ranked = sorted(self.rows, key=lambda one: (np.float32(math.dist(self.rows[one], (0.5, 0.25))), one))
        assert found.ids[0].tolist() == ranked[:4]


IndexAgainstList.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestIndexAgainstList = IndexAgainstList.TestCase


@pytest.mark.parametrize("kind", [HNSW(), IVF(probes=40)], ids=str)
def test_approximate_search_after_adding_and_removing(easy: Floats, new: Floats, kind: HNSW | IVF) -> None:
    """Removed items never come back, also not those that are only marked; added ones are found."""
    index = filled(easy[:2000], kind=kind)
    index.add(easy[2000:], ids=range(2000, 3000))
    gone = list(range(0, 3000, 5))
    assert index.remove(gone) == 600
    assert index._removed == 600  # marked, not yet built again
    kept = np.setdiff1d(np.arange(3000), gone)
    exact = Index(16, similarity="cosine")
    exact.add(easy[kept], ids=kept)
    expected = exact.search(new, k=10)
    got = index.search(new, k=10)
    assert not np.isin(got.ids, gone).any()
    assert np.mean([len(set(a) & set(b)) for a, b in zip(got.ids, expected.ids, strict=True)]) > 9.8
    index.remove(kept[:400])
    assert index._removed == 0  # a third was gone: built again
    assert len(index) == 2000
    assert not np.isin(index.search(new, k=10).ids, [*gone, *kept[:400]]).any()
    index.remove(index.ids[:1500])
    assert index._structure is None  # 500 items need no structure
    assert index.recall is None
    index.add(easy[:10], ids=range(9000, 9010))
    assert index.search(easy[:1], k=1).ids.tolist() == [[9000]]


def test_items_added_below_the_marked_ones_are_found(easy: Floats) -> None:
    index = filled(easy[:1100], kind=HNSW())
    index.remove(range(0, 200))
    index.add(easy[:50], ids=range(5000, 5050))
    assert index.search(easy[:50], k=1).ids[:, 0].tolist() == list(range(5000, 5050))


def test_a_short_approximate_answer_is_finished_exactly(easy: Floats) -> None:
    with pytest.warns(NearerWarning, match="Raise `probes`"):
        index = filled(easy, kind=IVF(cells=500, probes=1), similarity="euclidean")
    result = index.search(easy[:3], k=200)
    assert result.ids.shape == (3, 200)
    assert (result.ids >= 0).all()
    assert result.ids.tolist() == filled(easy, similarity="euclidean").search(easy[:3], k=200).ids.tolist()


def test_recall_is_measured_with_items_that_are_not_inside(hard: Floats) -> None:
    with pytest.warns(NearerWarning, match=r"IVF\(cells=None, probes=2\) finds \d+% of the 10 nearest.*`probes`"):
        index = filled(hard, kind=IVF(probes=2))
    recall = index.recall
    assert recall is not None
    assert (recall.k, recall.queries, recall.size) == (10, 100, 3900)
    queries = np.random.default_rng(5).standard_normal((300, 64))
    measured = index.recall_estimate(queries)
    assert abs(measured.value - recall.value) < 0.1
    truth = filled(hard).search(queries, k=10)
    found = index.search(queries, k=10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.ids, truth.ids, strict=True)])
    assert math.isclose(measured.value, shared, abs_tol=1e-9)
    assert f"recall@10 {recall.value:.3f} (100 queries, 3,900 items)" in repr(index)
    assert index.recall_estimate(queries, k=1).value <= 1


@pytest.mark.slow
def test_items_that_are_inside_would_flatter_a_graph() -> None:
    """Why the recall is measured with held-out items: 20,000 almost uniform directions, 64 dimensions."""
    x = np.random.default_rng(0).standard_normal((20_500, 64)).astype(np.float32)
    with pytest.warns(NearerWarning, match="Raise `search_width`"):
        index = filled(x[:20_000], kind=HNSW(search_width=20))
    outside = index.recall_estimate(x[20_000:]).value
    inside = index.recall_estimate(x[:500]).value
    assert index.recall is not None
    assert abs(index.recall.value - outside) < 0.08
    assert inside > outside + 0.2


def test_recall_does_not_punish_equal_items() -> None:
    index = filled(np.repeat(np.eye(8), 200, axis=0), kind=HNSW())
    assert index.recall is not None
    assert index.recall.value > 0.95


def test_recall_is_measured_again_when_the_index_has_doubled(easy: Floats) -> None:
    index = filled(easy[:1200], kind=HNSW())
    assert index.recall is not None
    assert index.recall.size == 1100
    index.add(easy[1200:1300])
    assert index.recall.size == 1100
    index.add(easy[1300:])
    assert index.recall.size == 2900


def test_cells_are_chosen_again_when_the_index_has_grown_fourfold() -> None:
    x = np.random.default_rng(0).standard_normal((4400, 4)).astype(np.float32)
    index = filled(x[:1100], kind=IVF(probes=30))
    assert index._structure is not None
    before = index._structure.faiss_index.nlist
    index.add(x[1100:4399])
    assert index._structure.faiss_index.nlist == before
    index.add(x[4399:])
    assert index._structure.faiss_index.nlist > before


def test_metadata_comes_with_the_hits_and_filters_them(easy: Floats) -> None:
    for kind in KINDS:
        index = Index(16, kind=kind, similarity="cosine")
        index.add(easy, metadata={"parity": ["even", "odd"] * 1500, "third": np.arange(3000) % 3 == 0})
        result = index.search(easy[:20], k=4, where={"parity": "odd"})
        assert all(hit.metadata["parity"] == "odd" for row in result for hit in row)
        expected = Index(16, similarity="cosine")
        expected.add(easy[1::2], ids=range(1, 3000, 2))
        assert result.ids.tolist() == expected.search(easy[:20], k=4).ids.tolist()
        both = index.search(easy[:3], k=4, where={"parity": "odd", "third": True})
        assert (both.ids % 6 == 3).all()
        most = index.search(easy[:20], k=4, where={"third": False})
        assert (most.ids % 3 != 0).all()
        assert index.search(easy[:3], where={"parity": "neither"}).ids.shape == (3, 0)
        assert index.search(easy[:3], where={"parity": None}).ids.shape == (3, 0)
        with pytest.raises(ParameterError, match=r"truth values.*got numbers: 1"):
            index.search(easy[:3], k=2, where={"third": 1})


def test_changing_a_result_or_the_given_metadata_does_not_change_the_index() -> None:
    notes = [{"tags": ["a"]}]
    index = Index(2, similarity="cosine")
    index.add([[1, 0]], metadata=notes)
    notes[0]["tags"] = ["b"]
    hit = index.search([[1, 0]])[0][0]
    hit.metadata["more"] = 1
    assert index.search([[1, 0]])[0][0] == (0, 1.0, {"tags": ["a"]})


def test_hits_ids_and_distances() -> None:
    index = Index(1, similarity="dot")
    index.add([[1], [3]], ids=np.array(["a", "b"]), metadata=[{"x": np.int64(1)}, {}])
    result = index.search([[2], [-1]], k=5)
    assert result.ids.dtype == object
    assert result.ids.tolist() == [["b", "a"], ["a", "b"]]
    assert result.similarities.tolist() == [[6.0, 2.0], [-1.0, -3.0]]
    assert result.distances.tolist() == [[-6.0, -2.0], [1.0, 3.0]]
    assert [[hit.id for hit in row] for row in result] == [["b", "a"], ["a", "b"]]
    assert result[1][0] == ("a", -1.0, {"x": 1})
    assert len(result) == 2
    assert filled([[3, 4]]).search([[6, 8]]).distances.tolist() == [[0.0]]
    assert ("a" in index, "z" in index, ["a"] in index) == (True, False, False)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_empty_index_finds_nothing(kind: Exact | HNSW | IVF) -> None:
    index = Index(3, kind=kind, similarity="cosine")
    assert index.add(np.empty((0, 3))) == []
    result = index.search(np.ones((2, 3)), k=4)
    assert result.ids.shape == result.similarities.shape == (2, 0)
    assert list(result) == [[], []]
    assert index.search(np.empty((0, 3))).ids.shape == (0, 0)
    assert index.remove([]) == 0
    assert repr(index).startswith("Index(0 × 3, cosine")


def test_numbers_are_never_given_out_twice() -> None:
    index = filled([[1.0], [2.0]], similarity="dot")
    index.remove([1])
    assert index.add([[3.0]]) == [2]
    index.add([[4.0]], ids=[10])
    assert index.add([[5.0]]) == [11]
    index.add([[6.0]], ids=[-5])
    assert index.ids == [0, 2, 10, 11, -5]


def test_an_error_changes_nothing() -> None:
    index = filled([[1.0], [2.0]], similarity="dot")
    for bad in (
        lambda: index.add([[3.0], [4.0]], ids=[5, 1]),
        lambda: index.add([[3.0], [4.0]], ids=[5, 5]),
        lambda: index.add([[3.0]], metadata=[{"x": math.nan}]),
        lambda: index.add([[math.nan]]),
        lambda: index.remove([0, 7]),
    ):
        with pytest.raises(ValueError):
            bad()
    assert index.ids == [0, 1]
    assert index.add([[3.0]]) == [2]


def test_stored_vectors_come_back() -> None:
    far = 5000 + np.random.default_rng(0).random((20, 3)).astype(np.float32)
    index = filled(far, similarity="euclidean")
    assert index._offset.any()  # kept about the mean, where distances have digits
    np.testing.assert_allclose(index.embeddings([3, 1]), far[[3, 1]], rtol=1e-6)
    distances = index.search(far[:5], k=20).distances
    expected = np.sort(np.linalg.norm(far[:5, None].astype(float) - far.astype(float), axis=2), axis=1)
    np.testing.assert_allclose(distances, expected, atol=1e-4)
    torch.testing.assert_close(filled([[3, 4]]).embeddings([0]), torch.tensor([[0.6, 0.8]]))
    assert index.embeddings([]).shape == (0, 3)


@given(st.sampled_from(["float16", "float64", "int", "readonly", "fortran", "strided", "tensor", "grad", "list"]))
@settings(max_examples=20, deadline=None)
def test_any_container_is_taken_and_left_alone(name: str) -> None:
    plain = np.array([[1, 0], [0, 2], [3, 3]], dtype=np.float32)
    make: dict[str, Callable[[], Any]] = {
        "float16": lambda: plain.astype(np.float16),
        "float64": lambda: plain.astype(np.float64),
        "int": lambda: plain.astype(int),
        "readonly": lambda: np.frombuffer(plain.tobytes(), dtype=np.float32).reshape(3, 2),
        "fortran": lambda: np.asfortranarray(plain),
        "strided": lambda: np.repeat(plain, 2, axis=1)[:, ::2],
        "tensor": lambda: torch.from_numpy(plain.copy()),
        "grad": lambda: torch.from_numpy(plain.copy()).requires_grad_(),
        "list": plain.tolist,
    }
    given_ = make[name]()
    index = filled(given_, similarity="euclidean")
    assert index.search(given_, k=1).ids.tolist() == [[0], [1], [2]]
    index._buffer[:] = 0
    numbers = given_.detach().numpy() if isinstance(given_, torch.Tensor) else np.asarray(given_)
    np.testing.assert_array_equal(numbers, plain)


def test_an_asymmetric_distance_needs_no_index_of_its_own() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = AsymmetricMap.from_factors(*torch.randn(2, 6, 3, generator=generator))
    x, y = torch.randn(4, 6, generator=generator), torch.randn(50, 6, generator=generator)
    index = filled(maps.transform_database(y), similarity="euclidean")
    found = index.search(maps.transform_queries(x), k=3)
    distance, ids = maps(x, y).detach().topk(3, largest=False)
    assert found.ids.tolist() == ids.tolist()
    torch.testing.assert_close(torch.from_numpy(found.distances).square(), distance, rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_is_left_alone(easy: Floats, new: Floats) -> None:
    before = (torch.get_num_threads(), faiss.omp_get_max_threads())
    for kind in KINDS:
        index = filled(easy, kind=kind)
        index.search(new)
        index.remove([1])
    assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == before


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda i: Index(0, similarity="cosine"), ParameterError, "`dimension` must be between 1 and"),
        (lambda i: Index(2, similarity="cosin"), ParameterError, "Did you mean 'cosine'"),
        (
            lambda i: Index(2, kind="hnsw", similarity="cosine"),
            ParameterError,
            r"`kind` must be Exact\(\), HNSW\(...\), IVF\(...\) or IVFPQ",
        ),
        (lambda i: HNSW(neighbors=1), ParameterError, "`neighbors` must be between 2"),
        (lambda i: HNSW(build_width=0), ParameterError, "`build_width` must be between 1 and 1048576"),
        (lambda i: HNSW(search_width=0), ParameterError, "`search_width` must be between 1 and 1048576"),
        (lambda i: IVF(cells=0), ParameterError, "`cells` must be between 1"),
        (lambda i: IVF(probes=0), ParameterError, "`probes` must be at least 1"),
        (lambda i: i.add([1.0, 2.0]), ShapeError, r"`embeddings` must have shape \(n, d\)"),
        (lambda i: i.add([[1.0]]), ShapeError, "`embeddings` must have 2 columns, got 1"),
        (lambda i: i.add([[math.inf, 0]]), NotFiniteError, "`embeddings` must be finite"),
        (lambda i: i.add([[0, 0]]), ParameterError, "must not hold rows of zeros, which have no direction: row 0"),
        (lambda i: i.add([[1, 1]], ids=["b"]), ParameterError, "`ids` must be whole numbers like those already"),
        (lambda i: i.add([[1, 1]], ids=[0]), ParameterError, "0 is already in the index. Remove it first"),
        (lambda i: i.add([[1, 1], [2, 1]], ids=[5, 5]), ParameterError, "5 comes twice"),
        (lambda i: i.add([[1, 1]], ids=[1, 2]), ShapeError, "one entry for each of the 1 rows, got 2"),
        (lambda i: i.add([[1, 1]], ids=[1.5]), ParameterError, "whole numbers of 64 bits or text, got 1.5"),
        (lambda i: i.add([[1, 1]], ids=[2**63]), ParameterError, "whole numbers of 64 bits"),
        (lambda i: i.add([[1, 1]], ids=[True]), ParameterError, "whole numbers of 64 bits or text, got True"),
        (lambda i: i.add([[1, 1], [1, 2]], ids=[7, "a"]), ParameterError, "all whole numbers or all text"),
        (lambda i: i.add([[1, 1]], ids="a"), ParameterError, r"must be a list of ids, got 'a'. Write \['a'\]"),
        (
            lambda i: i.add([[1, 1]], metadata=[{}, {}]),
            ShapeError,
            "`metadata` must have one entry for each of the 1",
        ),
        (lambda i: i.add([[1, 1]], metadata={"a": [1, 2]}), ShapeError, r"`metadata\['a'\]` must be a column"),
        (lambda i: i.add([[1, 1]], metadata={"a": "x"}), ShapeError, r"`metadata\['a'\]` must be a column"),
        (lambda i: i.add([[1, 1]], metadata=["x"]), ParameterError, "`metadata` must be dictionaries"),
        (lambda i: i.add([[1, 1]], metadata=[{"a": object()}]), ParameterError, "`metadata` must be JSON"),
        (lambda i: i.remove([9]), ParameterError, "`ids` must be in the index, 9 is not"),
        (lambda i: i.remove(0), ParameterError, r"must be a list of ids, got 0. Write \[0\]"),
        (lambda i: i.embeddings([9]), ParameterError, "9 is not"),
        (lambda i: i.search([[1, 2]], k=0), ParameterError, "`k` must be at least 1, got 0"),
        (lambda i: i.search([[1, 2, 3]]), ShapeError, "`queries` must have 2 columns, got 3"),
        (lambda i: i.search([[0, 0]]), ParameterError, "`queries` must not hold rows of zeros"),
        (lambda i: i.search([[math.nan, 0]]), NotFiniteError, "`queries` must be finite"),
        (lambda i: i.search([[1, 2]], where="x"), ParameterError, "`where` must be a dictionary"),
        (lambda i: i.search([[1, 2]], where={"a": object()}), ParameterError, r"`where\['a'\]` must be JSON"),
        (
            lambda i: Index(2, similarity="cosine").recall_estimate([[1, 2]]),
            ParameterError,
            "must hold an item before",
        ),
        (lambda i: Index(1, similarity="dot").add([[1e19]]), NotFiniteError, r"lengths below 1e\+18.*Scale"),
    ],
)
def test_bad_input_is_named(act: Callable[[Index], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act(filled([[1, 0]]))


def test_text_ids_cannot_be_numbered_on() -> None:
    index = Index(1, similarity="dot")
    index.add([[1]], ids=["a"])
    with pytest.raises(ParameterError, match="the ids of this index are text"):
        index.add([[2]])

"""Every prepared data set: shapes, ranges, class counts and the facts that its data card states."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearer.datasets import Dataset, dataset_names, load
from nearer.datasets._catalog import sources
from nearer.datasets._dataset import DataFile
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError, ShapeError
from nearer_papers.data._news20 import tfidf
from nearer_papers.data._obtain import data_folder, sha256_of
from nearer_papers.data._omniglot import load_omniglot, shrink

SOURCES = {source.name: source for source in sources()}
Real = Callable[[str], Dataset]
ROOT = Path(__file__).resolve().parents[3]

# name: part sizes, shape of one item, type, number of classes, smallest and largest class over all parts
FACTS: dict[str, tuple[dict[str, int], tuple[int, ...], str, int, tuple[int, int] | None]] = {
    "digits": ({"all": 1797}, (8, 8), "float32", 10, (174, 183)),
    "iris": ({"all": 150}, (4,), "float32", 3, (50, 50)),
    "wine": ({"all": 178}, (13,), "float32", 3, (48, 71)),
    "breast_cancer": ({"all": 569}, (30,), "float32", 2, (212, 357)),
    "mnist": ({"train": 60000, "test": 10000}, (28, 28), "uint8", 10, (6313, 7877)),
    "fashion_mnist": ({"train": 60000, "test": 10000}, (28, 28), "uint8", 10, (7000, 7000)),
    "usps": ({"train": 7291, "test": 2007}, (16, 16), "float32", 10, (708, 1553)),
    "uspst": ({"all": 2007}, (16, 16), "float32", 10, None),
    "omniglot": ({"all": 19280}, (28, 28), "uint8", 964, (20, 20)),
    "binary_alphadigits": ({"all": 1404}, (20, 16), "bool", 36, (39, 39)),
    "caltech101_silhouettes": ({"all": 8671}, (28, 28), "bool", 101, None),
    "mpeg7_shapes": ({"all": 1400}, (64, 64), "uint8", 70, (20, 20)),
    "coil20": ({"all": 1440}, (32, 32), "uint8", 20, (72, 72)),
    "msra25": ({"all": 1799}, (16, 16), "uint8", 12, None),
    "orl": ({"all": 400}, (32, 32), "uint8", 40, (10, 10)),
    "isolet": ({"train": 6238, "test": 1559}, (617,), "float32", 26, (298, 300)),
    "letter": ({"train": 16000, "test": 4000}, (16,), "float32", 26, (734, 813)),
    "satimage": ({"train": 4435, "test": 2000}, (36,), "float32", 6, (626, 1533)),
    "vehicle": ({"all": 846}, (18,), "float32", 4, (199, 218)),
    "news20": ({"train": 2382, "test": 1590}, (8013,), "float32", 4, (988, 997)),
    "banking77": ({"train": 10003, "test": 3080}, (384,), "float32", 77, (75, 227)),
    "cars196_features": ({"train": 4052, "test": 4092}, (1280,), "float32", 196, (24, 68)),
    "emotions": ({"train": 391, "test": 202}, (72,), "float32", 6, None),
    "flags": ({"train": 129, "test": 65}, (19,), "float32", 7, None),
    "scene": ({"train": 1211, "test": 1196}, (294,), "float32", 6, None),
    "corel5k": ({"train": 4500, "test": 500}, (499,), "float32", 374, None),
    "natural_scene": ({"all": 2000}, (294,), "float32", 9, None),
    "sjaffe": ({"all": 213}, (243,), "float32", 6, None),
    "sbu_3dfe": ({"all": 2500}, (243,), "float32", 6, None),
    "movie": ({"all": 7755}, (1869,), "float32", 5, None),
}


def nearest(queries: np.ndarray, database: np.ndarray) -> np.ndarray:
    """The nearest row of the database for each query, by Euclidean distance."""
    return np.argmin((database**2).sum(1) - 2 * queries @ database.T, axis=1)


def recall_at_1(x: np.ndarray, y: np.ndarray) -> float:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return float((y[similarity.argmax(1)] == y).mean())


@pytest.mark.parametrize("name", FACTS)
def test_shapes_and_classes(name: str, real: Real) -> None:
    data = real(name)
    parts, shape, dtype, classes, sizes = FACTS[name]
    assert {part: len(data[part]) for part in data} == parts
    assert len(data.all) == sum(parts.values())
    assert data.n_classes == classes
    assert len(data.class_names) in (0, classes)
    for part in data:
        split = data[part]
        assert split.x.shape[1:] == shape
        assert split.x.dtype == dtype
        if dtype == "float32":
            assert np.isfinite(split.x.data).all()
        if data.kind == "classes":
            assert split.y.dtype == np.int64
            assert split.y.shape == (len(split),)
    if data.kind == "classes":
        counts = np.bincount(data.all.y, minlength=classes)
        assert counts.min() > 0
        assert sizes is None or (counts.min(), counts.max()) == sizes
    assert re.fullmatch("[0-9a-f]{64}", data.fingerprint())
    assert data.citation
    assert data.source.address.startswith("http")


def test_cifar10_halves(real: Real) -> None:
    data = real("cifar10")
    n = len(data.train)
    assert n in (25000, 50000)
    assert bool(data.note) == (n == 25000)
    assert data.train.x.shape == (n, 32, 32, 3)
    assert data.train.x.dtype == np.uint8
    assert data.train.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert data.class_names[data.test.y[0]] == "cat"
    means = data.train.x.mean(axis=(0, 1, 2)) / 255
    assert np.abs(means - [0.4914, 0.4822, 0.4465]).max() < 0.003


def test_the_facts_cover_every_prepared_data_set() -> None:
    prepared = {name for name, source in SOURCES.items() if source.files}
    assert prepared | {"digits", "iris", "wine", "breast_cancer"} == {*FACTS, "cifar10"}


@pytest.mark.parametrize(
    "file", [file for source in SOURCES.values() for file in source.files], ids=lambda file: file.name
)
def test_checksums_are_those_of_the_files(file: DataFile, data_file: Callable[[str], Path]) -> None:
    assert sha256_of(data_file(file.name)) == file.sha256


def test_checksums_have_their_form_and_files_their_own_names() -> None:
    files = [file for source in SOURCES.values() for file in (*source.files, *source.downloads)]
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in files)
    assert len({file.name for file in files}) == len(files) == len({file.sha256 for file in files})


def test_mnist_class_counts(real: Real) -> None:
    data = real("mnist")
    assert np.bincount(data.train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.train.x.max() == 255


def test_usps_counts_and_textbook_error(real: Real) -> None:
    data = real("usps")
    assert np.bincount(data.train.y).tolist() == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert np.bincount(data.test.y).tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert (data.train.x.min(), data.train.x.max()) == (-1, 1)
    found = data.train.y[nearest(data.test.matrix(), data.train.matrix())]
    assert round(100 * float((found != data.test.y).mean()), 2) == 5.63


def test_uspst_says_which_labels_were_recovered(real: Real) -> None:
    part = real("uspst").all
    assert part.extra["label_from_source"].sum() == 1000
    assert np.abs(part.x).max() == 15 / 16
    assert np.array_equal(part.x * 16, np.rint(part.x * 16))


def test_omniglot_alphabets_and_drawers(real: Real) -> None:
    data = real("omniglot")
    names = data.extra["alphabet_names"]
    assert len(names) == 30
    assert sorted(names) == names.tolist()
    assert (np.diff(data.all.extra["alphabet"]) >= 0).all()
    assert data.all.extra["drawer"][:21].tolist() == [*range(20), 0]
    assert data.class_names[0].startswith(f"{names[0]}/01")
    assert len(set(data.class_names)) == 964
    assert data.class_names[data.all.y[-1]].split("/")[0] == names[data.all.extra["alphabet"][-1]]


def test_omniglot_original_pixels(data_file: Callable[[str], Path], real: Real) -> None:
    data_file("omniglot_background.npz")
    data = load_omniglot(pixels="105")
    assert data.all.x.shape == (19280, 105, 105)
    assert data.all.x.dtype == bool
    assert 0.02 < data.all.x.mean() < 0.1
    small = real("omniglot").all
    assert np.array_equal(small.y, data.all.y)
    # The 28x28 images of the prepared file are what the loader makes of the published ones.
    assert np.array_equal(shrink(data.all.x[::100]), small.x[::100])


def test_omniglot_refuses_other_sizes() -> None:
    with pytest.raises(ParameterError, match="`pixels` must be one of '28', '105'"):
        load_omniglot(pixels="64")  # type: ignore[arg-type]


def test_msra25_faces_stand_upright(real: Real) -> None:
    # Eyes and mouth are dark bands across an upright face, so rows differ more than columns.
    mean = real("msra25").all.x.mean(axis=0)
    assert mean[:, 4:12].mean(axis=1).std() > 1.3 * mean[4:12].mean(axis=0).std()


def test_isolet_nearest_neighbor(real: Real) -> None:
    data = real("isolet")
    assert np.abs(data.train.x).max() <= 1
    found = data.train.y[nearest(data.test.x, data.train.x)]
    assert round(100 * float((found == data.test.y).mean()), 2) == 88.58


def test_news20_words_and_weights(real: Real) -> None:
    data = real("news20")
    assert data.class_names == ("rec.autos", "rec.motorcycles", "rec.sport.baseball", "rec.sport.hockey")
    assert len(data.feature_names) == 8013
    assert data.all.x.shape == (3972, 8013)
    assert data.all.x.nnz == 237219
    documents = np.bincount(data.all.x.indices, minlength=8013)
    assert documents.min() > 5
    weighted = tfidf(data.all.x)
    assert np.allclose(weighted.multiply(weighted).sum(axis=1), 1, atol=1e-5)
    assert weighted.dtype == np.float32
    with pytest.raises(ShapeError, match="must hold images"):
        data.train.images()
    assert data.test.take([0, 1]).matrix().shape == (2, 8013)


def test_banking77_texts_and_open_set_recall(real: Real) -> None:
    data = real("banking77")
    assert np.bincount(data.test.y).tolist() == [40] * 77
    assert np.bincount(data.train.y).min() == 35
    assert np.bincount(data.train.y).max() == 187
    assert np.abs(np.linalg.norm(data.test.x, axis=1) - 1).max() < 0.01
    assert "card" in str(data.train.extra["text"][0]).lower()
    new = data.all.y >= 39
    assert round(100 * recall_at_1(data.all.x[new], data.all.y[new]), 1) == 93.7


def test_cars196_features_are_class_disjoint(real: Real) -> None:
    data = real("cars196_features")
    assert data.train.y.max() == 97
    assert data.test.y.min() == 98
    assert data.class_names[0] == "AM General Hummer SUV 2000"
    assert abs(100 * recall_at_1(data.test.x, data.test.y) - 45.4) < 0.2


@pytest.mark.parametrize(
    ("name", "cardinality"), [("emotions", 1.869), ("flags", 3.392), ("scene", 1.074), ("corel5k", 3.522)]
)
def test_multilabel_cardinality(name: str, cardinality: float, real: Real) -> None:
    data = real(name)
    assert data.kind == "sets"
    assert set(np.unique(data.all.y)) == {0, 1}
    assert abs(data.all.y.sum(axis=1).mean() - cardinality) < 0.001


def test_flags_mark_their_nominal_features(real: Real) -> None:
    data = real("flags")
    assert data.extra["feature_is_nominal"].sum() == 9
    assert data.feature_names[0] == "landmass"
    assert data.class_names[0] == "red"


@pytest.mark.parametrize("name", ["natural_scene", "sjaffe", "sbu_3dfe", "movie"])
def test_distributions_sum_to_one(name: str, real: Real) -> None:
    data = real(name)
    assert data.kind == "distributions"
    assert (data.all.y >= 0).all()
    assert np.abs(data.all.y.sum(axis=1) - 1).max() < 1e-4


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if source.files])
def test_an_absent_file_names_itself_the_folder_and_the_address(name: str, tmp_path: Path) -> None:
    source = SOURCES[name]
    with pytest.raises(MissingDataError) as caught:
        _load_offline(name, tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert source.address in message
    assert source.files[0].name in message
    assert "NEARER_DATA" in message


def _load_offline(name: str, folder: Path) -> Dataset:
    return load(name, folder=folder, **({"download": False} if SOURCES[name].downloads else {}))


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if source.files])
def test_another_file_under_the_name_is_refused(name: str, tmp_path: Path) -> None:
    for file in SOURCES[name].files:
        (tmp_path / file.name).write_bytes(b"something else")
    with pytest.raises(
        CorruptFileError, match=f"must have SHA-256 {SOURCES[name].files[0].sha256}, got [0-9a-f]{{64}}"
    ):
        load(name, folder=tmp_path)


def test_load_suggests_a_near_name() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'fashion_mnist'"):
        load("fashion-mnist")


def test_a_setting_that_a_loader_has_not_is_named() -> None:
    with pytest.raises(ParameterError, match="`pixels` is no setting of the data set 'mnist', which has folder"):
        load("mnist", pixels="105")


def test_the_page_lists_every_data_set_as_it_is(real: Real) -> None:
    page = (ROOT / "docs" / "datasets.md").read_text()
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` \|.*$", page, re.MULTILINE)}
    assert list(rows) == dataset_names()
    for name, (parts, shape, _, classes, _) in FACTS.items():
        cells = [cell.strip() for cell in rows[name].strip("|").split("|")]
        size = " + ".join(f"{count:,}" for count in parts.values())
        assert cells[1] == size, f"{name}: {cells[1]} should be {size}"
        assert cells[2] == " x ".join(f"{side:,}" for side in shape), name
        assert cells[3].startswith(f"{classes}"), name
    for file in {file.name for source in SOURCES.values() for file in source.files}:
        assert file in page, f"{file} and its arrays are not described"


def test_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEARER_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder(tmp_path / "other") == tmp_path / "other"
    monkeypatch.setenv("NEARER_DATA", "")
    assert data_folder() == Path("~/.cache/nearer").expanduser()

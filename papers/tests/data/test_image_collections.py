"""CUB-200-2011, Cars-196, Online Products and In-Shop: small trees of the published layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from nearer.datasets import Dataset, load
from nearer.exceptions import CorruptFileError, MissingDataError
from nearer_papers.data._cars196 import load_cars196
from nearer_papers.data._cub200 import load_cub200
from nearer_papers.data._inshop import load_inshop
from nearer_papers.data._sop import load_sop


def image(path: Path, color: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (color, 0, 0)).save(path)


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def cub(root: Path) -> Path:
    names = [
        "001.Black_footed_Albatross",
        "002.Laysan_Albatross",
        "003.Sooty_Albatross",
        "010.Red_winged_Blackbird",
    ]
    files = [f"{name}/{name[4:]}_{number:04d}.jpg" for name in names for number in (1, 2)]
    write(root / "classes.txt", *(f"{number} {name}" for number, name in enumerate(names, start=1)))
    write(root / "images.txt", *(f"{number} {file}" for number, file in enumerate(files, start=1)))
    write(root / "image_class_labels.txt", *(f"{number} {(number + 1) // 2}" for number in range(1, 9)))
    for number, file in enumerate(files):
        image(root / "images" / file, number)
    return root


def cars_annotations(files: list[str], classes: list[int], field: str) -> np.ndarray:
    kinds = [(field, object), ("bbox_x1", object), ("class", object), ("test", object)]
    records = np.empty((1, len(files)), dtype=kinds)
    for place, (file, label) in enumerate(zip(files, classes, strict=True)):
        records[0, place] = (file, 1, label, 0)
    return records


def names(*texts: str) -> np.ndarray:
    cells = np.empty((1, len(texts)), dtype=object)
    cells[0] = texts
    return cells


MODELS = ("AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Audi S4", "Fiat 500")


def cars(root: Path) -> Path:
    files = [f"car_ims/{number:06d}.jpg" for number in range(1, 9)]
    root.mkdir(parents=True)
    annotations = cars_annotations(files, [1, 2, 3, 4, 1, 2, 3, 4], "relative_im_path")
    savemat(root / "cars_annos.mat", {"annotations": annotations, "class_names": names(*MODELS)})
    for number, file in enumerate(files):
        image(root / file, number)
    return root


def cars_devkit(root: Path, beside: bool = False) -> Path:
    (root / "devkit").mkdir(parents=True)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": names(*MODELS)})
    train = cars_annotations(["00001.jpg", "00002.jpg"], [4, 1], "fname")
    test = cars_annotations(["00001.jpg", "00002.jpg", "00003.jpg"], [2, 3, 1], "fname")
    savemat(root / "devkit" / "cars_train_annos.mat", {"annotations": train})
    savemat((root if beside else root / "devkit") / "cars_test_annos_withlabels.mat", {"annotations": test})
    for file in ("cars_train/00001.jpg", "cars_train/00002.jpg", *(f"cars_test/0000{n}.jpg" for n in (1, 2, 3))):
        image(root / file)
    return root


def sop(root: Path) -> Path:
    header = "image_id class_id super_class_id path"
    write(
        root / "Ebay_train.txt",
        header,
        "1 1 1 bicycle_final/111_0.JPG",
        "2 1 1 bicycle_final/111_1.JPG",
        "3 2 12 toaster_final/222_0.JPG",
    )
    write(root / "Ebay_test.txt", header, "4 3 1 bicycle_final/333_0.JPG", "5 3 1 bicycle_final/333_1.JPG")
    for file in ("bicycle_final/111_0", "bicycle_final/111_1", "toaster_final/222_0", "bicycle_final/333_0",
                 "bicycle_final/333_1"):  # fmt: skip
        image(root / f"{file}.JPG")
    return root


def inshop(root: Path, inside: str = "Img/", lists: str = "Eval/") -> Path:
    rows = [
        "img/WOMEN/Dresses/id_00000002/02_1_front.jpg                id_00000002 train",
        "img/WOMEN/Dresses/id_00000002/02_2_side.jpg                 id_00000002 train",
        "img/MEN/Denim/id_00000080/01_1_front.jpg                    id_00000080 query",
        "img/MEN/Denim/id_00000080/01_2_side.jpg                     id_00000080 gallery",
        "img/MEN/Denim/id_00000080/01_3_back.jpg                     id_00000080 gallery",
    ]
    write(root / f"{lists}list_eval_partition.txt", "5", "image_name item_id evaluation_status", *rows)
    for row in rows:
        image(root / f"{inside}{row.split()[0]}")
    return root


def test_cub200(tmp_path: Path) -> None:
    root = cub(tmp_path / "CUB_200_2011")
    for folder in (root, tmp_path):
        data = load_cub200(folder=folder, check_counts=False)
        assert data.train.y.tolist() == [0, 0, 1, 1]
        assert data.test.y.tolist() == [2, 2, 3, 3]
        assert data.class_names[3] == "Red winged Blackbird"
        assert data.train.x[0] == "001.Black_footed_Albatross/Black_footed_Albatross_0001.jpg"
    stack = data.test.images([0, 3], size=(2, 3))
    assert stack.shape == (2, 3, 2, 3)
    assert data.train.images().shape == (4, 3, 4, 6)
    assert abs(stack[1, 0].mean() * 255 - 7) < 2


def test_the_data_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cub(tmp_path / "CUB_200_2011")
    monkeypatch.setenv("NEARER_DATA", str(tmp_path))
    assert len(load_cub200(check_counts=False).all) == 8


def test_cars196_with_one_list(tmp_path: Path) -> None:
    data = load_cars196(folder=cars(tmp_path / "cars196"), check_counts=False)
    assert data.train.y.tolist() == [0, 1, 0, 1]
    assert data.test.y.tolist() == [2, 3, 2, 3]
    assert data.class_names == MODELS
    assert data.test.x[0] == "car_ims/000003.jpg"
    assert data.test.images([0]).shape == (1, 3, 4, 6)


@pytest.mark.parametrize("beside", [False, True])
def test_cars196_with_the_devkit(tmp_path: Path, beside: bool) -> None:
    cars_devkit(tmp_path / "stanford_cars", beside)
    data = load_cars196(folder=tmp_path, check_counts=False)
    # The class-disjoint split mixes the train and test images of the classification task.
    assert sorted(data.train.x) == ["cars_test/00001.jpg", "cars_test/00003.jpg", "cars_train/00002.jpg"]
    assert data.test.y.tolist() == [3, 2]


def test_sop(tmp_path: Path) -> None:
    data = load_sop(folder=sop(tmp_path / "Stanford_Online_Products"), check_counts=False)
    assert data.train.y.tolist() == [0, 0, 1]
    assert data.test.y.tolist() == [2, 2]
    assert data.train.extra["kind"].tolist() == [0, 0, 11]
    assert data.n_classes == 3
    assert data.all.images([4]).shape == (1, 3, 4, 6)


@pytest.mark.parametrize(("inside", "lists"), [("Img/", "Eval/"), ("", "Eval/"), ("", "")])
def test_inshop(tmp_path: Path, inside: str, lists: str) -> None:
    data = load_inshop(folder=inshop(tmp_path / "inshop", inside, lists), check_counts=False)
    assert {part: len(data[part]) for part in data} == {"train": 2, "queries": 1, "database": 2}
    assert data["queries"].y.tolist() == [1]
    assert data["database"].y.tolist() == [1, 1]
    assert data.class_names == ("id_00000002", "id_00000080")
    assert data["queries"].images().shape == (1, 3, 4, 6)


TREES: list[tuple[str, Callable[[Path], Path], Callable[..., Dataset], str]] = [
    ("cub200", cub, load_cub200, "must have 5,864 train, 5,924 test images, got 4 train, 4 test"),
    ("cars196", cars, load_cars196, "must have 8,054 train, 8,131 test images, got 4 train, 4 test"),
    ("sop", sop, load_sop, "must have 59,551 train, 60,502 test images, got 3 train, 2 test"),
    ("inshop", inshop, load_inshop, "25,882 train, 14,218 queries, 12,612 database images, got 2 train, 1 queries"),
]


@pytest.mark.parametrize(("name", "make", "loader", "message"), TREES)
def test_published_counts_are_checked(
    name: str, make: Callable[[Path], Path], loader: Callable[..., Dataset], message: str, tmp_path: Path
) -> None:
    root = make(tmp_path / "tree")
    with pytest.raises(CorruptFileError, match=message):
        loader(folder=root)
    with pytest.raises(CorruptFileError, match="check_counts=False"):
        load(name, folder=root)


@pytest.mark.parametrize(("name", "make", "loader", "message"), TREES)
def test_a_missing_image_is_named(
    name: str, make: Callable[[Path], Path], loader: Callable[..., Dataset], message: str, tmp_path: Path
) -> None:
    root = make(tmp_path / "tree")
    gone = next(path for path in sorted(root.rglob("*")) if path.suffix.lower() == ".jpg")
    gone.unlink()
    with pytest.raises(MissingDataError, match=rf"and 1 are not there, the first is `.*{gone.name}`"):
        loader(folder=root, check_counts=False)


@pytest.mark.parametrize(("name", "make", "loader", "message"), TREES)
def test_an_absent_tree_says_where_it_was_looked_for(
    name: str, make: Callable[[Path], Path], loader: Callable[..., Dataset], message: str, tmp_path: Path
) -> None:
    from nearer.datasets._catalog import sources

    with pytest.raises(MissingDataError) as caught:
        loader(folder=tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert next(one for one in sources() if one.name == name).address in str(caught.value)


def test_cub200_lists_that_disagree(tmp_path: Path) -> None:
    root = cub(tmp_path / "tree")
    write(root / "image_class_labels.txt", "1 1", "2 1")
    with pytest.raises(CorruptFileError, match="8 images, 2 labels, 4 classes"):
        load_cub200(folder=root, check_counts=False)
    write(root / "image_class_labels.txt", *(f"{number} 9" for number in range(1, 9)))
    with pytest.raises(CorruptFileError, match="must name the same images and classes"):
        load_cub200(folder=root, check_counts=False)
    write(root / "image_class_labels.txt", *(f"{number} a" for number in range(1, 9)))
    write(root / "classes.txt", "a first", "b second")
    with pytest.raises(CorruptFileError, match="must begin each line with a number"):
        load_cub200(folder=root, check_counts=False)
    (root / "classes.txt").unlink()
    with pytest.raises(MissingDataError, match=r"classes\.txt` is needed"):
        load_cub200(folder=root, check_counts=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "must have 4 entries on each line, got '1 2 3' on line 2"),
        ("1 x 3 a.JPG", "must have numbers in its first three columns"),
    ],
)
def test_sop_bad_lines(tmp_path: Path, line: str, message: str) -> None:
    root = sop(tmp_path / "tree")
    write(root / "Ebay_test.txt", "image_id class_id super_class_id path", line)
    with pytest.raises(CorruptFileError, match=message):
        load_sop(folder=root, check_counts=False)


def test_classes_on_both_sides_are_refused(tmp_path: Path) -> None:
    root = sop(tmp_path / "sop")
    write(root / "Ebay_test.txt", "image_id class_id super_class_id path", "4 1 1 bicycle_final/111_0.JPG")
    with pytest.raises(CorruptFileError, match="no product in both parts, and has 1"):
        load_sop(folder=root, check_counts=False)
    root = inshop(tmp_path / "inshop")
    path = root / "Eval" / "list_eval_partition.txt"
    path.write_text(path.read_text().replace("id_00000080 query", "id_00000002 query"))
    with pytest.raises(CorruptFileError, match="no garment both in train"):
        load_inshop(folder=root, check_counts=False)
    path.write_text(path.read_text().replace(" query", " probe"))
    with pytest.raises(CorruptFileError, match="train, query or gallery on each line, got 'probe'"):
        load_inshop(folder=root, check_counts=False)


def test_lists_that_are_not_text_or_empty(tmp_path: Path) -> None:
    root = inshop(tmp_path / "inshop")
    (root / "Eval" / "list_eval_partition.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(CorruptFileError, match="must be a text file"):
        load_inshop(folder=root)
    (root / "Eval" / "list_eval_partition.txt").write_text("0\nimage_name item_id evaluation_status\n")
    with pytest.raises(CorruptFileError, match="must name at least one image"):
        load_inshop(folder=root)


def test_cars196_lists_that_are_not(tmp_path: Path) -> None:
    root = cars(tmp_path / "cars196")
    annotations = cars_annotations(["car_ims/000001.jpg"], [9], "relative_im_path")
    savemat(root / "cars_annos.mat", {"annotations": annotations, "class_names": names(*MODELS)})
    with pytest.raises(CorruptFileError, match=r"must have classes 1\.\.4"):
        load_cars196(folder=root, check_counts=False)
    savemat(root / "cars_annos.mat", {"annotations": np.eye(2), "class_names": names(*MODELS)})
    with pytest.raises(CorruptFileError, match="fields relative_im_path and class"):
        load_cars196(folder=root, check_counts=False)
    (root / "cars_annos.mat").write_text("text")
    with pytest.raises(CorruptFileError, match="must be a MATLAB file"):
        load_cars196(folder=root, check_counts=False)
    wrong = cars_annotations(["a.jpg"], [1], "relative_im_path")
    for value in ("one", np.nan, 1.5, [1, 2]):
        wrong["class"][0, 0] = value
        savemat(root / "cars_annos.mat", {"annotations": wrong, "class_names": names(*MODELS)})
        with pytest.raises(CorruptFileError, match="one name and one whole number in each record"):
            load_cars196(folder=root, check_counts=False)
    good = cars_annotations(["a.jpg"], [1], "relative_im_path")
    savemat(root / "cars_annos.mat", {"annotations": good, "class_names": np.eye(2)})
    with pytest.raises(CorruptFileError, match="`class_names` as cells of text"):
        load_cars196(folder=root, check_counts=False)


def test_the_test_list_without_classes_is_explained(tmp_path: Path) -> None:
    root = cars_devkit(tmp_path / "tree")
    records = np.empty((1, 1), dtype=[("fname", object)])
    records[0, 0] = ("00001.jpg",)
    savemat(root / "devkit" / "cars_test_annos_withlabels.mat", {"annotations": records})
    with pytest.raises(CorruptFileError, match=r"take cars_test_annos_withlabels\.mat"):
        load_cars196(folder=root, check_counts=False)


@pytest.mark.parametrize(
    ("load_it", "place", "classes", "published"),
    [(load_cub200, "cub", 200, "5,864 train, 5,924 test"), (load_cars196, "cars", 196, "8,054 train, 8,131 test")],
)
def test_plain_class_folders_in_their_official_order(
    load_it: Callable[..., Dataset], place: str, classes: int, published: str, tmp_path: Path
) -> None:
    for number in range(1, classes + 1):
        folder = tmp_path / place / f"{number:03d}.Kind_{classes - number}"
        folder.mkdir(parents=True)
        (folder / "1.jpg").touch()
    (tmp_path / place / "notes").mkdir()
    with pytest.raises(CorruptFileError, match=rf"must have {published} images, .* \(`--allow-missing`\)"):
        load_it(folder=tmp_path)
    for folder in (tmp_path, tmp_path / place):
        data = load_it(folder=folder, allow_missing=True)
        assert (len(data.train), len(data.test)) == (classes // 2, classes // 2)
        assert data.class_names[0] == f"Kind {classes - 1}", "the numbers are the order, not the names"
        assert data.train.x[0] == f"001.Kind_{classes - 1}/1.jpg"
        assert "train images and" in data.note
        assert data.note.endswith("missing")
    (tmp_path / place / f"{classes:03d}.Kind_0" / "1.jpg").unlink()
    (tmp_path / place / f"{classes:03d}.Kind_0").rmdir()
    with pytest.raises(MissingDataError, match="needs its unpacked folder"):
        load_it(folder=tmp_path, allow_missing=True)


@pytest.mark.parametrize(("load_it", "make"), [(load_cub200, cub), (load_cars196, cars)])
def test_files_that_lack_are_counted_where_that_is_allowed(
    load_it: Callable[..., Dataset], make: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = make(tmp_path / ("CUB_200_2011" if load_it is load_cub200 else "cars196"))
    whole = load_it(folder=root, allow_missing=True)
    lost = next(path for path in sorted(root.rglob("*.jpg")))
    lost.unlink()
    some = load_it(folder=root, allow_missing=True)
    assert len(some.all) == len(whole.all) - 1
    assert some.note.startswith(f"{int(whole.note.split()[0].replace(',', '')) + 1:,} of ")
    with pytest.raises(MissingDataError):
        load_it(folder=root, check_counts=False)

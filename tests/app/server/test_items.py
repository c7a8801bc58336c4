"""Items as they come over the wire: table rows, texts, photos, pairs; the service without a network in between."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import nearer
from nearer.app.server import Settings
from nearer.app.server._logs import Log
from nearer.app.server._problems import Refusal, refusal_of
from nearer.app.server._service import Call, Service
from nearer.app.server._state import Place
from nearer.geometry import Mahalanobis, TwoEncoders
from nearer.geometry._encoders import ColorCNN
from nearer.models import Model
from nearer.models._inputs import Inputs
from running_server import make_index, make_model

JSON = "application/json"


def asked(place: Path, *calls, prepare=None):
    """The answers, or what was raised, of some calls to a service."""

    async def run():
        service = Service(Place(str(place / "model"), str(place / "index"), create=True), Settings(), Log("none"))
        if prepare:
            prepare(service)
        found = []
        for name, call in calls:
            try:
                answer = await getattr(service, name)(call)
                found.append(json.loads(answer.body))
            except Exception as error:
                found.append(refusal_of(error))
        await service.stop()
        return found

    return asyncio.run(run())


def of_items(items) -> Call:
    return Call(json.dumps({"items": items}).encode(), JSON)


def test_rows_of_a_table_by_the_names_of_their_columns(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": chance.integers(20, 60, 60).astype(float),
            "town": chance.choice(["Ulm", "Bonn", "Kiel"], 60),
            "member": chance.random(60) < 0.5,
            "kind": chance.choice(["a", "b"], 60),
        }
    )
    frame.loc[3, "age"] = np.nan
    model = nearer.fit(frame, "kind", method="lfda")
    model.save(tmp_path / "model")
    records = frame.drop(columns="kind").astype(object).where(lambda x: x.notna(), None).to_dict(orient="records")
    good, strange, missing, nothing = asked(
        tmp_path,
        ("embed", of_items(records)),
        ("embed", of_items([{**records[0], "height": 3}])),
        ("embed", of_items([{"age": 3}])),
        ("embed", of_items([{}])),
    )
    np.testing.assert_allclose(good["vectors"], model.transform(frame.drop(columns="kind")), rtol=1e-5, atol=1e-6)
    assert good["model"] == model.fingerprint
    for refused, words in ((strange, "height"), (missing, "town"), (nothing, "columns")):
        assert isinstance(refused, Refusal)
        assert refused.status == 422
        assert words in refused.message


def test_a_photo_is_sent_as_it_is(tmp_path: Path) -> None:
    from PIL import Image

    model = Model(ColorCNN(), Inputs("images", size=(3, 32, 32)), "by hand")
    model.save(tmp_path / "model")
    (tmp_path / "photos").mkdir()
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 40, 3), dtype=np.uint8))
    picture.save(tmp_path / "photos" / "one.png")
    file = io.BytesIO()
    picture.save(file, "PNG")
    good, broken, huge = asked(
        tmp_path,
        ("embed", Call(file.getvalue(), "image/png")),
        ("embed", Call(file.getvalue()[:100], "image/png")),
        ("embed", Call(b"GIF89a" + b"\xff\xff\xff\xff" + bytes(20), "image/gif")),
    )
    np.testing.assert_allclose(good["vectors"], model.transform(tmp_path / "photos"), rtol=1e-4, atol=1e-5)
    assert (broken.status, huge.status) == (422, 422)


def test_texts_through_the_encoder_of_the_model(tmp_path: Path, monkeypatch) -> None:
    def letters(texts):
        return np.array([[len(text), text.count("a"), text.count("e"), 1.0] for text in texts], dtype=np.float32)

    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))
    texts = [f"{'a' * (row % 7)} {'e' * (row % 5)} text {row}" for row in range(60)]
    model = nearer.fit(texts, [row % 2 for row in range(60)], method="lfda", encoder=letters)
    model.save(tmp_path / "model")

    def give_back(service) -> None:
        import dataclasses

        loaded = nearer.load(tmp_path / "model", encoder=letters)
        service.served = dataclasses.replace(service.served, model=loaded)

    good, wrong = asked(
        tmp_path, ("embed", of_items(texts[:5])), ("embed", of_items([{"text": "a"}])), prepare=give_back
    )
    np.testing.assert_allclose(good["vectors"], model.transform(texts[:5]), rtol=1e-4, atol=1e-5)
    assert "takes no table rows" in wrong.message


def test_same_or_not_by_the_calibration_of_the_model(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 6)
    rows = (3 * chance.normal(size=(40, 4))[y] + 0.05 * chance.normal(size=(240, 4))).astype(np.float32)
    model = make_model(tmp_path / "model")
    model.calibrate(rows, y)
    model.save(tmp_path / "model")
    make_index(tmp_path / "index", model, rows)
    near, far, unknown, half = asked(
        tmp_path,
        ("same", Call(json.dumps({"items": [rows[0].tolist(), rows[1].tolist()]}).encode(), JSON)),
        ("same", Call(b'{"ids": [0, 100]}', JSON)),
        ("same", Call(b'{"ids": [0, 999]}', JSON)),
        ("same", Call(b'{"ids": [0]}', JSON)),
    )
    assert (near["answer"], far["answer"]) == ("same", "different")
    assert near["distance"] == pytest.approx(np.linalg.norm(rows[0] - rows[1]), rel=1e-5)
    assert (near["about"]["error"], near["about"]["guarantee"], near["about"]["n_classes"]) == (
        0.05,
        "estimated",
        40,
    )
    assert (unknown.status, half.status) == (404, 422)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("a secret in /srv/models"), 500, "defect"),
        (nearer.exceptions.LockedError("`/srv/index` is written"), 503, "locked"),
        (nearer.exceptions.CorruptFileError("`/srv/index` is damaged"), 503, "index_unavailable"),
        (nearer.exceptions.LostWorkerError("postgresql://u:p@h/b is gone"), 503, "engine_unavailable"),
        (nearer.exceptions.ShapeError("`x` of /srv/models/one must fit"), 422, "refused"),
    ],
)
def test_no_error_tells_where_things_are(error, status, code) -> None:
    problem = refusal_of(error)
    assert (problem.status, problem.code) == (status, code)
    told = problem.body("1").decode()
    assert "/srv" not in told
    assert "u:p" not in told


def test_queries_and_items_go_through_their_own_maps(tmp_path: Path) -> None:
    encoder = TwoEncoders(Mahalanobis.from_factor(2 * torch.eye(3)), Mahalanobis.from_factor(torch.eye(3)))
    Model(encoder, Inputs("features", size=(3,)), "by hand").save(tmp_path / "model")
    added, found, embedded = asked(
        tmp_path,
        ("items", of_items([[2.0, 0.0, 0.0], [0.0, 5.0, 0.0]])),
        ("search", Call(b'{"items": [[1, 0, 0]], "k": 1}', JSON)),
        ("embed", of_items([[1.0, 0.0, 0.0]])),
    )
    assert added["ids"] == [0, 1]
    assert found["results"][0][0] == {"id": 0, "distance": 0.0, "similarity": 0.0, "metadata": {}}
    assert embedded["vectors"] == [[2.0, 0.0, 0.0]]

"""Fine-tuning inside `fit`: it starts from the closed form, takes what is better, and keeps what was there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import nearer
from nearer.app.cli import app
from nearer.exceptions import CorruptFileError, LabelError, LimitError, ParameterError
from nearer.models import _encoders as encoders
from nearer.models import _finetuning as finetuning
from nearer.models._fitting import fit_model
from nearer.models._reading import Reading, read_items
from nearer.models._settings import FitSettings

Image = pytest.importorskip("PIL.Image")

CLASSES, EACH, SIDE = 10, 6, 12
SEEN = {"size": 10, "resize": 12}
QUICK: dict[str, Any] = {"epochs": 2, "lr": 3e-3, "pictures": False}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARER_CACHE", str(tmp_path / "cache"))


def tiny(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    first = [nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    network = nn.Sequential(*first, nn.Conv2d(8, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()).eval()
    for layer in network:
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.2, 0.2)
            layer.running_var.uniform_(0.5, 2)
    return network


def photos() -> tuple[np.ndarray, np.ndarray]:
    """Each class a pattern of its own under noise."""
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.normal(size=(CLASSES, 3, 3, 3)), np.ones((1, 4, 4, 1)))
    labels = np.repeat(np.arange(CLASSES), EACH)
    pixels = 128 + 40 * patterns[labels] + rng.normal(0, 50, (len(labels), SIDE, SIDE, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8), labels


@pytest.fixture
def rising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch scores better than the one before: what a network this small would do is a matter of luck."""
    calls = iter(range(100))
    monkeypatch.setattr(
        finetuning, "evaluate", lambda *_, **__: dict.fromkeys(("recall@1", "map@r"), next(calls) / 100)
    )


def tuned(**more: Any) -> nearer.models.Model:
    settings = {**QUICK, **more.pop("settings", {})}
    return nearer.fit(*photos(), encoder=tiny(), encoder_settings=SEEN, finetune=True, settings=settings, **more)


def data(encoder: Any = None) -> Any:
    return read_items(*photos(), None, Reading(encoder or tiny(), SEEN))


@pytest.mark.usefixtures("rising")
def test_the_encoder_learns_and_the_model_keeps_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tuned()
    told = capsys.readouterr().err
    assert told.index("Fine-tuning Sequential: 2 epochs of 32 photos, about") < told.index(
        "Note: Fine-tuning started"
    )
    assert "8 photos of 2 classes that it does not learn from. Ctrl-C keeps the best so far" in told
    assert model.method == "fine-tuned"
    assert "photos by Sequential, fine-tuned; 10 classes" in str(model)
    assert "took epoch" in str(model)
    assert "closed form" in model.fitted.comparison.baselines
    x, _ = photos()
    plain = nearer.fit(*photos(), encoder=tiny(), encoder_settings=SEEN)
    np.testing.assert_array_equal(model.raw(x), plain.raw(x))
    rows = model.transform(x)
    assert rows.shape == (60, 16)
    np.testing.assert_array_equal(model.transform(model.features(x)), rows)
    np.testing.assert_array_equal(model.features(x, raw=False)[:, 16:], rows)
    assert not model.features(x, raw=False)[:, :16].any(), "what nobody asked for is not made"
    middles = torch.from_numpy(x[:, 1:11, 1:11]).permute(0, 3, 1, 2) / 255
    layers = model.to_torch()
    np.testing.assert_allclose(layers(middles).detach(), rows, atol=1e-5)
    assert model.export(tmp_path / "model.safetensors").stat().st_size > 4 * 8 * 16 * 9
    assert model.index(x).search(rows[:1], k=1)[0][0].id == 0
    assert model.fitted.history.best > 0
    place = model.save(tmp_path / "model")
    assert model.parameters["finetune"] is True
    loaded = nearer.load(place)
    with pytest.raises(ParameterError, match="'Sequential, fine-tuned' must be given"):
        loaded.transform(x)
    np.testing.assert_array_equal(loaded.transform(model.features(x)), rows)
    again = nearer.load(place, encoder=tiny())
    # Not from the cache: the network itself was made again.
    os.environ["NEARER_CACHE"] = str(tmp_path / "other")
    np.testing.assert_allclose(again.transform(x), rows, atol=1e-6)
    assert again.fingerprint == model.fingerprint != plain.fingerprint
    frozen_again = nearer.load(plain.save(tmp_path / "plain"), encoder=tiny())
    assert frozen_again.fingerprint == plain.fingerprint, "an index of one is an index of the other"
    with pytest.raises(ParameterError, match="its weights differ"):
        nearer.load(place, encoder=tiny(1))
    with pytest.raises(ParameterError, match="this one was fine-tuned already"):
        nearer.fit(*photos(), encoder=model.inputs.encoder, finetune=True)


@pytest.mark.usefixtures("rising")
def test_numbers_of_another_network_are_refused() -> None:
    front = tuned().inputs.encoder
    assert front is not None
    state = {name: value for name, value in front.state.items() if "head" not in name}  # type: ignore[union-attr]
    made = encoders.FrozenEncoder.from_dict(front.to_dict(), tiny(), state)
    with pytest.raises(CorruptFileError, match="must be those of 'Sequential'"):
        made.plain()


def test_what_is_not_better_is_not_taken() -> None:
    model = tuned(settings={"lr": 1e-12})
    assert model.method == "within-class"
    assert "none of 2 epochs was better" in str(model)
    plain = nearer.fit(*photos(), encoder=tiny(), encoder_settings=SEEN)
    np.testing.assert_array_equal(model.transform(photos()[0]), plain.transform(photos()[0]))


def test_any_loss_class_vectors_start_at_class_means() -> None:
    model = tuned(loss="AMSoftmaxLoss")
    assert model.parameters["loss"] == "AMSoftmaxLoss"
    assert "Fine-tuning started from the closed form" in str(model)


class Broken(nn.Module):
    """A loss that is not a number in its third step."""

    steps = 0

    def forward(self, embeddings: torch.Tensor, labels: Any) -> torch.Tensor:
        self.steps += 1
        value: torch.Tensor = -embeddings[:, 0].sum() * (float("nan") if self.steps > 2 else 1.0)
        return value


def test_a_loss_that_is_no_number_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetuning, "named_loss", lambda *_: Broken())
    model = tuned(settings={"batch_size": 20})
    assert "ended before its time, with the best so far: The loss must be finite" in str(model)


def pressing(at: int, what: Callable[[], None]) -> Callable[[Any], None]:
    def callback(moment: Any) -> None:
        if moment.kind == "step" and moment.step == at:
            what()

    return callback


def test_ctrl_c_keeps_the_best_so_far() -> None:
    press = pressing(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    settings = FitSettings.from_dict({**QUICK, "finetune": True, "batch_size": 20})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        fitted = fit_model(data(), settings, callbacks=[press])
    finally:
        signal.signal(signal.SIGINT, before)
    assert any("stopped after step 1 of" in note for note in fitted.notes)
    assert fitted.model.method == "within-class", "nothing better had come yet"


class Killed(Exception):
    pass


@pytest.mark.usefixtures("rising")
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def kill() -> None:
        raise Killed

    settings = FitSettings.from_dict({**QUICK, "finetune": True, "batch_size": 20})
    whole = fit_model(data(), settings, folder=tmp_path / "whole")
    with pytest.raises(Killed):
        fit_model(data(), settings, folder=tmp_path / "cut", callbacks=[pressing(3, kill)])
    resumed = fit_model(data(), settings, folder=tmp_path / "cut")
    assert resumed.history is not None
    assert whole.history is not None
    assert resumed.history.series("loss") == whole.history.series("loss")
    x = photos()[0]
    np.testing.assert_array_equal(resumed.model.transform(x), whole.model.transform(x))


def test_a_batch_that_does_not_fit_is_encoded_in_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finetuning, "free_memory", lambda: 1e5)
    tuned(settings={"epochs": 1})
    assert "A batch does not fit the memory at once:" in capsys.readouterr().err
    monkeypatch.setattr(finetuning, "free_memory", lambda: 1e3)
    with pytest.raises(LimitError, match="must hold two items of a training step"):
        tuned()


def test_few_classes_are_chosen_on_rows(capsys: pytest.CaptureFixture[str]) -> None:
    x, labels = photos()
    some = labels < 4
    settings = {**QUICK, "epochs": 1}
    nearer.fit(x[some], labels[some], encoder=tiny(), encoder_settings=SEEN, finetune=True, settings=settings)
    assert "that it does not learn from" not in capsys.readouterr().err


def test_time_that_was_asked_for_bounds_the_epochs() -> None:
    settings = FitSettings.from_dict({"time": 10.0, "finetune": True})
    assert finetuning._epochs(settings, 10, 3.0) == 3
    assert finetuning._epochs(settings, 10, 100.0) == 1
    assert finetuning._epochs(FitSettings(), 10, 100.0) == 10
    assert finetuning._epochs(FitSettings(), 200, 100.0) == 4
    assert finetuning._epochs(FitSettings.from_dict({"epochs": 7}), 200, 100.0) == 7


@pytest.mark.parametrize(
    ("given", "settings", "kind", "message"),
    [
        (lambda x: np.asarray(x)[:, ::6, ::6, 0].reshape(len(x), -1) / 255, {}, ParameterError, "is a function"),
        (nn.Sequential(nn.AvgPool2d(4)), {}, ParameterError, "must have parameters that learn"),
        (None, {"method": "nca"}, ParameterError, "must not come with the method 'nca'"),
        (None, {"split": "classes", "held_out": 0.85}, None, ""),
    ],
)
def test_bad_input_is_said_before_anything_is_spent(
    given: Any, settings: dict[str, Any], kind: Any, message: str
) -> None:
    wanted = FitSettings.from_dict({**QUICK, "epochs": 1, "finetune": True, **settings})
    if kind is None:
        assert fit_model(data(given), wanted).model.data["split"] == "classes"
        return
    x, labels = photos()
    reading = Reading(given or tiny(), {} if callable(given) and not isinstance(given, nn.Module) else SEEN)
    with pytest.raises(kind, match=message):
        fit_model(read_items(x, labels, None, reading), wanted)


def test_what_has_no_items_or_no_classes_is_refused() -> None:
    with pytest.raises(ParameterError, match="must come with photos or texts behind an encoder"):
        nearer.fit(np.eye(20), np.arange(20) % 4, finetune=True)
    x, labels = photos()
    single = np.where(np.arange(60) % EACH == 0, labels, -1)
    single[:4] = 0
    with pytest.raises(LabelError, match="must have two classes with two labelled items each"):
        nearer.fit(x, single, encoder=tiny(), encoder_settings=SEEN, finetune=True)
    with pytest.raises(LabelError, match="must come with classes, got numbers"):
        nearer.fit(x, np.linspace(0, 1, 60), encoder=tiny(), encoder_settings=SEEN, finetune=True)


class Words(nn.Module):
    """What a SentenceTransformer is, as far as training needs it."""

    tokenizer = SimpleNamespace(pad_token_id=0)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(32, 8, padding_idx=0)

    def preprocess(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        longest = max(map(len, texts))
        numbers = [[1 + ord(letter) % 30 for letter in text] + [0] * (longest - len(text)) for text in texts]
        return {"input_ids": torch.tensor(numbers)}

    def forward(self, asked: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        mask = asked["attention_mask"][:, :, None]
        return {"sentence_embedding": (self.table(asked["input_ids"]) * mask).sum(1) / mask.sum(1)}

    @torch.no_grad()
    def encode(self, texts: Sequence[str], **_: Any) -> np.ndarray:
        numbers = self.preprocess(texts)["input_ids"]
        found = self({"input_ids": numbers, "attention_mask": (numbers != 0).long()})
        return found["sentence_embedding"].numpy()


@pytest.mark.usefixtures("rising")
def test_texts_behind_a_sentence_encoder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics = np.repeat(np.arange(9), 6)
    texts = ["".join(rng.permutation(list("abcdefghi"[t : t + 2] + "xyzw")))[: rng.integers(4, 7)] for t in topics]
    settings = {**QUICK, "lr": 0.05}
    model = nearer.fit(texts, topics, encoder=Words(), finetune=True, settings=settings)
    assert "texts by Words, fine-tuned" in str(model)
    loaded = nearer.load(model.save(tmp_path / "model"), encoder=Words())
    np.testing.assert_allclose(loaded.transform(["abx", "hiyz"]), model.transform(["abx", "hiyz"]), atol=1e-6)


@pytest.mark.usefixtures("rising")
def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = photos()
    for number, (photo, label) in enumerate(zip(x, labels, strict=True)):
        place = tmp_path / "photos" / f"{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(place / f"{number}.png")
    small = encoders._lite("efficientnet-lite0")
    monkeypatch.setitem(
        encoders.PACKAGED, "efficientnet-lite0", encoders.replace(small, settings={**small.settings, **SEEN})
    )
    monkeypatch.setattr(encoders, "installed", lambda name: True)
    monkeypatch.setattr(encoders, "_network", lambda name: tiny())
    words = ["fit", str(tmp_path / "photos"), "--finetune", "--epochs", "2", "--lr", "0.003", "--no-pictures"]
    done = CliRunner().invoke(app, [*words, "--encoder", "efficientnet-lite0", "--out", str(tmp_path / "model")])
    assert done.exit_code == 0, done.output
    assert "--finetune" in done.output
    model = nearer.load(tmp_path / "model")
    assert model.method == "fine-tuned"
    assert model.transform(x[:2]).shape[0] == 2, "a packaged encoder comes back by its name"
    assert not (tmp_path / "model.training").exists()


@pytest.mark.usefixtures("rising")
@pytest.mark.parametrize("chunk", [None, 7])
def test_a_loss_that_looks_at_several_layers_gets_them(chunk: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    class Seeing(nearer.losses.JRDLoss):
        def forward(self, embeddings: Any, labels: Any, *, pooled: Any = None) -> Any:
            given.append((embeddings.detach(), pooled.detach()))
            assert pooled.requires_grad, "the features learn by it"
            return super().forward(embeddings, labels, pooled=pooled)

    monkeypatch.setattr(nearer.losses, "JRDLoss", Seeing)
    wanted = {"chunk": chunk, "n_components": 5, "loss_settings": {"alpha": 0.5}}
    model = tuned(loss="JRDLoss", settings=wanted)
    assert model.method == "fine-tuned"
    embeddings, pooled = given[0]
    assert embeddings.shape == (32, 5)
    assert pooled.shape == (32, 16)
    head = model.fitted.problem.inputs.encoder.network.head
    torch.testing.assert_close(embeddings, head(pooled), msg="the embedding is the head of these features")


def test_jrd_makes_its_class_vectors_itself() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 15)
    rows = rng.normal(size=(4, 6))[labels] * 2 + rng.normal(size=(60, 6))
    model = nearer.fit(rows, labels, loss="JRDLoss", settings={"epochs": 2, "pictures": False})
    assert model.method == "network"

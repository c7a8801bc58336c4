"""The loop: the best model is kept, patience ends it, resuming continues it, callbacks see it."""

from __future__ import annotations

import csv
import json
import sys
import types

import pytest
import torch
from torch import nn

from nearer.exceptions import CorruptFileError, MissingDataError, NotFiniteError, ParameterError
from nearer.training import (
    Checkpoints,
    CSVLog,
    JSONLinesLog,
    MLflowLog,
    ProgressBar,
    TensorBoardLog,
    UniformSampler,
    WandbLog,
    train,
)
from nearer.training._loop import Moment, TrainingInterrupted


class Counter:
    """A step that counts: its one weight is the number of steps."""

    def __init__(self) -> None:
        self.module = nn.Module()
        self.module.register_buffer("count", torch.zeros(1))

    def __call__(self, rows):
        self.module.count += 1
        return float(self.module.count)

    def state_dict(self):
        return {"module": dict(self.module.state_dict())}

    def load_state_dict(self, state):
        self.module.load_state_dict(state["module"])


SAMPLER = UniformSampler(6, batch_size=2)


def scored(values):
    """A validation that returns these scores one after the other."""
    rest = iter(values)
    return lambda: {"score": next(rest), "other": 0.0}


def test_epochs_steps_and_their_means():
    step = Counter()
    history = train(step, SAMPLER, epochs=2)
    assert step.module.count == 6
    assert history.series("loss") == [2.0, 5.0]
    assert history.best is None
    assert not history.stopped_early


def test_the_best_model_is_kept_the_earlier_of_equals():
    step = Counter()
    history = train(step, SAMPLER, epochs=5, validate=scored([0.1, 0.5, 0.5, 0.2, 0.4]))
    assert (history.best, history.best_score) == (2, 0.5)
    assert step.module.count == 6, "the weights of epoch 2 came back"


def test_patience_ends_the_run():
    step = Counter()
    history = train(step, SAMPLER, epochs=50, validate=scored([0.5, 0.4, 0.3, 0.6, 0.1, 0.1, 0.1]), patience=3)
    assert history.stopped_early
    assert len(history.epochs) == 7
    assert history.best == 4


def test_the_watched_score_can_be_named():
    history = train(Counter(), SAMPLER, epochs=2, validate=scored([0.1, 0.9]), watch="other")
    assert history.best == 1
    with pytest.raises(ParameterError, match="one of score, other, got 'recall'"):
        train(Counter(), SAMPLER, epochs=1, validate=scored([0.1]), watch="recall")
    with pytest.raises(ParameterError, match="need `validate`"):
        train(Counter(), SAMPLER, epochs=1, patience=2)


class Stop(Exception):
    pass


@pytest.mark.parametrize("at", [1, 3, 4, 9, 10])
@pytest.mark.parametrize("every", [None, 1, 2])
def test_resumed_as_if_nothing_had_happened(tmp_path, at, every):
    scores = {1: 0.3, 2: 0.9, 3: 0.1, 4: 0.2, 5: 0.4}

    def go(step, folder, *, die=None):
        def callback(moment):
            if moment.kind == "step" and moment.step == die:
                raise Stop

        return train(
            step,
            SAMPLER,
            epochs=5,
            # The score hangs on the weights alone, as a real one does.
            validate=lambda: {"score": scores[int(step.module.count) // 3]},
            patience=3,
            callbacks=[callback],
            checkpoints=Checkpoints(folder, every=every),
        )

    whole = Counter()
    expected = go(whole, tmp_path / "whole")
    with pytest.raises(Stop):
        go(Counter(), tmp_path / "cut", die=at)
    step = Counter()
    found = go(step, tmp_path / "cut")
    assert torch.equal(step.module.count, whole.module.count)
    assert found.best == expected.best == 2
    assert found.stopped_early
    assert expected.stopped_early
    assert found.series("loss") == expected.series("loss")
    again = Counter()
    assert go(again, tmp_path / "cut").series("score") == expected.series("score"), "a finished run stays finished"
    assert torch.equal(again.module.count, whole.module.count)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    train(Counter(), SAMPLER, epochs=1, checkpoints=Checkpoints(tmp_path))
    with pytest.raises(CorruptFileError, match="3 batches per epoch, this one has 6"):
        train(Counter(), UniformSampler(6, batch_size=1), epochs=1, checkpoints=Checkpoints(tmp_path))

    class Other(Counter):
        def __init__(self):
            super().__init__()
            self.module.register_buffer("more", torch.zeros(1))

    with pytest.raises(CorruptFileError, match=r"does not fit this run.*more"):
        train(Other(), SAMPLER, epochs=1, checkpoints=Checkpoints(tmp_path))


def test_ctrl_c_lets_the_step_finish(tmp_path):
    import os
    import signal

    def press(moment):
        if moment.kind == "step" and moment.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(TrainingInterrupted, match="stopped after step 2 of 6"):
            train(Counter(), SAMPLER, epochs=2, callbacks=[press], checkpoints=Checkpoints(tmp_path))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the handler that was there is back"
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert len(train(Counter(), SAMPLER, epochs=2, callbacks=[press]).epochs) == 2, "ignored is ignored"
    finally:
        signal.signal(signal.SIGINT, before)
    assert Checkpoints(tmp_path).load()["place"][:3] == [0, 2, 2]


def test_callbacks_see_every_moment():
    seen = []
    train(Counter(), SAMPLER, epochs=2, callbacks=[lambda moment: seen.append((moment.kind, moment.step))])
    assert [kind for kind, _ in seen] == ["start", *["step"] * 3, "epoch", *["step"] * 3, "epoch", "end"]
    assert seen[-1] == ("end", 6)


def test_file_logs(tmp_path):
    logs = [JSONLinesLog(tmp_path / "log.jsonl"), CSVLog(tmp_path / "log.csv")]
    train(Counter(), SAMPLER, epochs=2, validate=scored([0.1, 0.2]), callbacks=logs)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 2, 3, 4, 5, 6]
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [(row["epoch"], float(row["score"])) for row in rows] == [("1", 0.1), ("2", 0.2)]
    (tmp_path / "note.txt").write_text("mine\n")
    with pytest.raises(ParameterError, match="must be a log of nearer or free"):
        JSONLinesLog(tmp_path / "note.txt")(Moment("start", 0, 0, 1))
    assert (tmp_path / "note.txt").read_text() == "mine\n"


def test_a_resumed_log_has_every_step_once(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    resumed = JSONLinesLog(log)
    resumed(Moment("start", 0, 2, 9))
    resumed(Moment("end", 0, 2, 9))
    assert log.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_tensorboard(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(Counter(), SAMPLER, epochs=2, callbacks=[TensorBoardLog(tmp_path)])
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in events.Scalars("epoch/loss")] == [2.0, 5.0]
    assert [event.step for event in events.Scalars("step/loss")] == [1, 2, 3, 4, 5, 6]


def test_without_tensorboard_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDataError, match=r"nearer\[tensorboard\]"):
        TensorBoardLog(tmp_path)


def test_logs_of_other_libraries_get_plain_calls():
    calls = []
    run = types.SimpleNamespace(log=lambda values, step: calls.append((dict(values), step)))
    client = types.SimpleNamespace(log_metrics=lambda values, step: calls.append((dict(values), step)))
    moment = Moment("epoch", 1, 3, 6, {"recall@1": 0.5})
    for log in (WandbLog(run), MLflowLog(client)):
        log(Moment("start", 0, 0, 6))
        log(moment)
    assert calls == [({"epoch/recall@1": 0.5}, 3), ({"epoch/recall_at_1": 0.5}, 3)]


def test_progress_bar_shows_loss_and_scores():
    from rich.console import Console

    console = Console(record=True, force_terminal=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    train(Counter(), SAMPLER, epochs=1, validate=scored([0.25]), callbacks=[ProgressBar(console)])
    text = console.export_text()
    console.file.close()
    assert "3/3" in text
    assert "loss 2.0000" in text
    assert "score 0.2500" in text


def falling(step):
    """A validation whose scores hang on the weights: best before the first step."""
    return lambda: {"score": -float(step.module.count)}


def test_the_start_is_a_candidate():
    step = Counter()
    history = train(step, SAMPLER, epochs=2, validate=falling(step), keep_best=True)
    assert (history.best, history.best_score, history.start) == (0, 0.0, {"score": 0.0})
    assert step.module.count == 0, "the weights that came in are back"
    assert len(history.epochs) == 2
    with pytest.raises(ParameterError, match="`keep_best` need `validate`"):
        train(Counter(), SAMPLER, epochs=1, keep_best=True)


def test_patience_counts_from_the_start():
    step = Counter()
    history = train(step, SAMPLER, epochs=9, validate=falling(step), keep_best=True, patience=2)
    assert history.stopped_early
    assert len(history.epochs) == 2


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_ctrl_c_leaves_the_best_so_far_and_a_signal_ends_the_program(number, tmp_path):
    import os
    import signal

    def press(moment):
        if moment.kind == "step" and moment.step == 5:
            os.kill(os.getpid(), getattr(signal, number))

    step = Counter()
    run = {"epochs": 3, "validate": lambda: {"score": float(step.module.count)}, "keep_best": True}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if number == "SIGTERM":
            with pytest.raises(TrainingInterrupted, match="stopped after step 5 of 9"):
                train(step, SAMPLER, callbacks=[press], checkpoints=Checkpoints(tmp_path), **run)
            history = train(step, SAMPLER, checkpoints=Checkpoints(tmp_path), **run)
            assert (history.best, history.stopped, step.module.count) == (3, "", 9)
            assert history.start == {"score": 0.0}, "of the first start, not of where it went on"
            return
        history = train(step, SAMPLER, callbacks=[press], **run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert history.best == 1
    assert history.stopped.startswith("stopped after step 5 of 9")
    assert step.module.count == 3


def test_a_loss_that_is_no_number_leaves_the_best_so_far():
    class Breaking(Counter):
        def __call__(self, rows):
            if self.module.count == 4:
                raise NotFiniteError("The loss must be finite, got nan.")
            return super().__call__(rows)

    step = Breaking()
    with pytest.raises(NotFiniteError):
        train(Breaking(), SAMPLER, epochs=3)
    score = {"validate": lambda: {"score": float(step.module.count)}, "keep_best": True}
    history = train(step, SAMPLER, epochs=3, **score)
    assert (history.best, history.stopped) == (1, "The loss must be finite, got nan.")
    assert step.module.count == 3

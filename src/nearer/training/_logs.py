"""Callbacks that write down what happens: JSON lines, CSV, TensorBoard, Weights & Biases, MLflow.

A callback is a function of a `Moment`; these are objects with `__call__`. In a job of many processes only the first
writes. The file logs drop lines behind the place where a resumed run begins, so no step is there twice.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearer._bars import progress_bar
from nearer._checks import needed
from nearer._storage import write_file
from nearer.exceptions import ParameterError
from nearer.training._loop import Moment
from nearer.training._processes import rank


class JSONLinesLog:
    """One JSON object per step and per epoch.

    >>> import tempfile
    >>> log = JSONLinesLog(tempfile.mkdtemp() + "/log.jsonl")
    >>> log(Moment("start", 0, 0, 2)), log(Moment("step", 0, 1, 2, {"loss": 0.5})), log(Moment("end", 0, 1, 2))
    (None, None, None)
    >>> log.path.read_text()
    '{"kind": "step", "epoch": 0, "step": 1, "loss": 0.5}\\n'

    Args:
        path: the file to write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: io.TextIOBase | None = None

    def __call__(self, moment: Moment) -> None:
        if rank() != 0:
            return
        if moment.kind == "start":
            _cut(self.path, lambda line: json.loads(line)["step"] <= moment.step)
            self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115
        elif moment.kind == "end":
            self._close()
        elif self._file is not None:
            head = {"kind": moment.kind, "epoch": moment.epoch, "step": moment.step}
            self._file.write(json.dumps({**head, **moment.values}) + "\n")
            self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class CSVLog:
    """One row per epoch, for spreadsheets: epoch, step, then the values of the first epoch as columns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # in a run: train(..., callbacks=[CSVLog("run/log.csv")])
    ...     log = CSVLog(f"{folder}/log.csv")
    ...     log(Moment("epoch", epoch=1, step=10, steps=10, values={"loss": 0.5}))
    ...     print(log.path.read_text().split())
    ['epoch,step,loss', '1,10,0.5']

    Args:
        path: the file to write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._columns: list[str] = []

    def __call__(self, moment: Moment) -> None:
        if rank() != 0:
            return
        if moment.kind == "start":
            kept = _cut(self.path, lambda line: line.startswith("epoch,") or int(line.split(",")[1]) <= moment.step)
            self._columns = kept[0].strip().split(",") if kept else []
        elif moment.kind == "epoch":
            row = {"epoch": moment.epoch, "step": moment.step, **moment.values}
            fresh = not self._columns
            self._columns = self._columns or list(row)
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, self._columns, extrasaction="ignore", lineterminator="\n")
                if fresh:
                    writer.writeheader()
                writer.writerow(row)


class TensorBoardLog:
    """Scalars for TensorBoard (`pip install nearer[tensorboard]`).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     callbacks = [TensorBoardLog(folder)]  # for `train(step, sampler, epochs=3, callbacks=callbacks)`

    Args:
        folder: where the events go.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # The CSV and JSON lines logs need nothing.
        what = "TensorBoardLog needs TensorBoard"
        self._make = needed("torch.utils.tensorboard", what, "tensorboard").SummaryWriter
        self.folder = Path(folder)
        self._writer: Any = None

    def __call__(self, moment: Moment) -> None:
        if rank() != 0:
            return
        if moment.kind == "start":
            # purge_step hides what an earlier process wrote behind the checkpoint.
            self._writer = self._make(str(self.folder), purge_step=moment.step + 1 if moment.step else None)
        elif moment.kind == "end":
            self._writer.close()
        else:
            for name, value in moment.values.items():
                self._writer.add_scalar(f"{moment.kind}/{name}", value, moment.step)


class WandbLog:
    """Scalars for Weights & Biases; `run` is what `wandb.init(...)` returned.

    >>> class Run:  # stands for what wandb.init() returns
    ...     def log(self, values, step):
    ...         print(step, values)
    >>> WandbLog(Run())(Moment("epoch", epoch=1, step=10, steps=10, values={"loss": 0.5}))
    10 {'epoch/loss': 0.5}

    Args:
        run: what `wandb.init(...)` returned.
    """

    def __init__(self, run: Any) -> None:
        self.run = run

    def __call__(self, moment: Moment) -> None:
        if rank() == 0 and moment.values:
            self.run.log(_named(moment), step=moment.step)


class MLflowLog:
    """Scalars for MLflow; `client` is the module `mlflow` inside a started run.

    >>> class Recorder:  # stands for the module mlflow
    ...     def log_metrics(self, values, step):
    ...         print(step, values)
    >>> MLflowLog(Recorder())(Moment("epoch", epoch=1, step=10, steps=10, values={"loss": 0.5}))
    10 {'epoch/loss': 0.5}

    Args:
        client: the module `mlflow` inside a started run.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def __call__(self, moment: Moment) -> None:
        if rank() == 0 and moment.values:
            # MLflow refuses "@" in names.
            values = {name.replace("@", "_at_"): value for name, value in _named(moment).items()}
            self.client.log_metrics(values, step=moment.step)


def _named(moment: Moment) -> Mapping[str, float]:
    return {f"{moment.kind}/{name}": value for name, value in moment.values.items()}


def _cut(path: Path, keep: Any) -> list[str]:
    """Leave the lines that `keep` accepts; a last line that a killed process did not finish goes too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept: list[str] = []
    for line in lines:
        try:
            if line.endswith("\n") and keep(line):
                kept.append(line)
        except (ValueError, KeyError, IndexError) as error:
            raise ParameterError(f"`{path}` must be a log of nearer or free, it holds {line[:40]!r}.") from error
    write_file(path, "".join(kept).encode("utf-8"))
    return kept


class ProgressBar:
    """Steps done, time left, the last loss and the last scores, on the error stream.

    `console` is a rich console; by default one on stderr, so that piped output stays clean. In a job of many
    processes only the first shows it.

    >>> bar = ProgressBar()  # train(..., callbacks=[bar])

    Args:
        console: a rich console; one on stderr if None.
    """

    def __init__(self, console: Any = None) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._scores = ""

    def __call__(self, moment: Moment) -> None:
        if rank() != 0:
            return
        if moment.kind == "start":
            self._begin(moment)
        elif moment.kind == "end":
            self._bar.stop()
        else:
            if moment.kind == "epoch":
                shown = [(name, value) for name, value in moment.values.items() if name not in _PLAIN]
                self._scores = "  ".join(f"{name} {value:.4f}" for name, value in shown)
            loss = f"loss {moment.values['loss']:.4f}" if "loss" in moment.values else ""
            self._bar.update(self._task, completed=moment.step, what=f"{loss}  {self._scores}".strip())

    def _begin(self, moment: Moment) -> None:
        self._bar = progress_bar(self._console)
        self._task = self._bar.add_task("learning", total=moment.steps, completed=moment.step, what="")
        self._bar.start()


_PLAIN = ("loss", "rate", "seconds")

"""`nearer fit`: load, learn, compare with the raw features, write the model folder."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from nearer._checks import check_int
from nearer._plain import counted
from nearer.app.cli._config import parse_yaml, read_config
from nearer.app.cli._loading import load_data, paired
from nearer.app.cli._output import check_drawable, check_is_here, check_new, check_writable, print_json, say
from nearer.app.cli._screen import IterationBar, comparison_table, screen
from nearer.datasets import Dataset
from nearer.datasets._anything import ColumnRoles
from nearer.exceptions import ParameterError
from nearer.models._card import save_fitted
from nearer.models._fitting import Fitted, fit_model
from nearer.models._reading import NO_PHOTOS_EXTRA, Reading
from nearer.models._saved import is_model
from nearer.models._settings import DATA_KEYS, FitSettings
from nearer.training import ProgressBar, process_group
from nearer.training._shared import agree, rank


def run_fit(
    *,
    config: Path | None,
    resume: bool,
    report: Path | None,
    force: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn from the settings of the config file, overridden by the options that were given."""
    check_new(report=report, force=force)
    check_drawable(report)
    values = read_config(config) if config is not None else {}
    if words := options.pop("loss_settings", None):
        options["loss_settings"] = {**values.get("loss_settings", {}), **_assignments(words)}
    values.update({name.rstrip("_"): value for name, value in options.items() if value not in (None, [], ())})
    for name in ("data", "pairs"):
        if name in values:
            values[name] = str(values[name])
    if values.get("loss") is not None:
        values.setdefault("method", "network")
    about = {name: values.pop(name, key.default) for name, key in DATA_KEYS.items()}
    settings = FitSettings.from_dict(values)
    if about["data"] is None:
        raise ParameterError("`DATA` must be given: a table, or a folder of images. See nearer fit --help.")
    check_is_here(about["out"])
    out = Path(str(about["out"]))
    if not out.name or "\0" in out.name:
        raise ParameterError(f"`--out` must be the name of a folder to write, got {str(about['out'])!r}.")
    scratch = out.with_name(out.name + ".training")
    with _hint_to_resume(scratch), process_group():
        _check_free(out, scratch, resume=resume, force=force)
        # Nobody goes on, and writes, before all have looked.
        agree(False)
        console = screen(stderr=True, quiet=quiet or rank() != 0)
        label, features, ignore, keep = (_listed(about[name]) for name in ("label", "features", "ignore", "keep"))
        # Encoding shows a bar of its own, and a terminal has room for one.
        if about["text"] and about["image"]:
            raise ParameterError("`--text` and `--image` must not both be given: an encoder reads one column.")
        column = about["text"] or about["image"]
        with nullcontext() if column or Path(about["data"]).is_dir() else _busy(console, "reading the data"):
            most = None if about["rows"] is None else check_int(about["rows"], "rows", minimum=10)
            blank = None if about["unlabeled"] is None else str(about["unlabeled"])
            columns = ColumnRoles((), about["id"], tuple(keep), tuple(ignore), tuple(features), most=most)
            asked = {name: about[name] for name in ("encoder", "unreadable")} | {"text": column}
            photos, progress = about["image"] is not None, False if quiet else None
            how = Reading(**asked, photos=photos, unlabeled=blank, progress=progress)
            data = load_data(Path(about["data"]), label, columns, how)
            if about["pairs"] is not None:
                if label:
                    raise ParameterError("`--pairs` and `--label` must not both be given: pairs stand for labels.")
                data = paired(data, Path(str(about["pairs"])))
        if not quiet:
            console.print(_summary(data), highlight=False)
            if data.all.x.dtype.kind == "U" and about["encoder"] is None:
                console.print(NO_PHOTOS_EXTRA, highlight=False, markup=False)
        bar = [ProgressBar(console)] if console.is_terminal and not quiet else []
        with IterationBar(console) as iterations:
            fitted = fit_model(
                data,
                settings,
                folder=scratch,
                callbacks=[iterations.make_room, *bar],
                say=console.print,
                follow=iterations.follow,
            )
        # A model travels: where its maker kept his files stays with him.
        fitted.model.command = command_line(_without_folders(about), settings)
        if rank() != 0:
            return
        with _busy(console, "writing the model"):
            logs = {file.name: file.read_bytes() for file in scratch.glob("log.*")} if scratch.is_dir() else {}
            folder = save_fitted(fitted, out, logs=logs)
            shutil.rmtree(scratch, ignore_errors=True)
            if report is not None:
                fitted.model.report(report)
        if as_json:
            again = {"command": command_line(about, settings), "model": str(folder), "skipped": list(data.skipped)}
            print_json({**fitted_record(fitted), **again})
        else:
            _show(fitted, out, again=command_line(about, settings), quiet=quiet)


def _assignments(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE words as settings; values are numbers, true, false or text.

    >>> _assignments(["alpha=2", "reduction=sum"])
    {'alpha': 2, 'reduction': 'sum'}
    """
    settings: dict[str, Any] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or not name:
            raise ParameterError(f"`--set` must be NAME=VALUE, such as alpha=2, got {word!r}.")
        settings[name] = parse_yaml(value, "`--set`")
    return settings


def fitted_record(fitted: Fitted) -> dict[str, Any]:
    """What `--json` prints of a fit."""
    return {
        "method": fitted.model.method,
        "rule": fitted.rule,
        "data": dict(fitted.model.data),
        **fitted.comparison.to_dict(),
        "trials": [dataclasses.asdict(trial) for trial in fitted.trials],
        "seconds": round(fitted.seconds, 2),
        "command": fitted.model.command,
    }


def command_line(about: Mapping[str, Any], settings: FitSettings) -> str:
    """The command that makes the same model: only what differs from the defaults."""
    words = ["nearer", "fit", str(about["data"])]
    for name in ("label", "features", "ignore", "keep"):
        for item in _listed(about[name]):
            words += [f"--{name}", item]
    for name in ("pairs", "rows", "id", "encoder", "text", "image", "unlabeled", "unreadable", "out"):
        if about[name] != DATA_KEYS[name].default:
            words += [f"--{name}", str(about[name])]
    for name, (default, _) in FitSettings.described().items():
        value = getattr(settings, name)
        if value == default or (name == "method" and settings.loss is not None):
            continue
        if name == "loss_settings":
            words += [word for key, item in value.items() for word in ("--set", f"{key}={item}")]
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            for item in value if isinstance(value, tuple) else [value]:
                words += [f"--{flag}", str(item)]
    return shlex.join(words)


def _show(fitted: Fitted, out: Path, *, again: str, quiet: bool) -> None:
    counts = fitted.model.data
    title = f"{counts['held out']:,} held-out rows ({counts['split']} split)"
    screen().print(comparison_table(fitted.comparison, title=title))
    say(fitted.verdict)
    if not quiet:
        say(f"Model: {out} ({fitted.model.method}, {fitted.seconds:.1f} s). Again: {again}")


def _summary(data: Dataset) -> str:
    """Rows, columns, classes and what was done to the columns, before anything is learned."""
    part = data.all
    what = "rows" if data.encoder is None else f"{data.encoder.kind} by {data.encoder.name}"
    lines = [f"{data.name}: {len(part):,} {what}; labels: {data.kind}"]
    if data.note:
        lines[0] += f" ({data.note})"
    if data.pairs is not None:
        near = data.pairs.listed()[1]
        lines[0] += f", {int(near.sum()):,} near and {int((~near).sum()):,} far"
    if part.y.ndim == 1 and data.kind in ("classes", "partial") and (part.y >= 0).any():
        counts = np.bincount(part.y[part.y >= 0])
        rows = f"{counts.min():,} to " if counts.min() < counts.max() else ""
        lines[0] += (
            f", {counted(len(data.class_names), 'class', 'classes')} of {rows}{counted(counts.max(), 'row')}"
        )
        if (part.y < 0).any():
            lines[0] += f", {counted(int((part.y < 0).sum()), 'row')} without a label"
    if data.cleaning is not None and any(column.why for column in data.cleaning.columns):
        lines += [f"  {line}" for line in str(data.cleaning).splitlines()]
    learned = () if data.cleaning is None else data.cleaning.inputs
    kept = [] if data.columns is None else [name for name in data.columns.keep if name not in learned]
    if kept:
        lines.append(f"  Kept for searches, not learned from: {', '.join(kept)}. --features learns from them too.")
    return "\n".join(lines)


def _check_free(out: Path, scratch: Path, *, resume: bool, force: bool) -> None:
    """Nothing is overwritten: neither a model, without `--force`, nor a run that could go on."""
    if not out.exists():
        check_writable(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not (force and is_model(out)):
        what = "free, an empty folder, or with `--force` a model" if force else "free or an empty folder"
        more = " or add `force=True`" if not force and is_model(out) else " or delete it"
        raise ParameterError(f"`--out` must be {what}, `{out}` is not. Choose another,{more}.")
    if scratch.exists() and not resume:
        if _nothing_learned(scratch):
            shutil.rmtree(scratch)  # what was asked for was refused before the first step
            return
        raise ParameterError(
            f"`{scratch}` holds a run that did not end. Add --resume to go on with it, or delete it to begin again."
        )


def _nothing_learned(scratch: Path) -> bool:
    """Whether a run has left logs and an empty folder for checkpoints, and nothing that could go on."""
    if scratch.is_symlink() or not scratch.is_dir():
        return False
    ours = {"log.jsonl", "log.csv", "checkpoints"}
    names = {file.name for file in scratch.iterdir()}
    return names <= ours and not any((scratch / "checkpoints").glob("*"))


def _without_folders(about: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with absolute paths cut to their names."""

    def cut(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [cut(entry) for entry in value]
        return Path(value).name if isinstance(value, str | Path) and Path(value).is_absolute() else value

    return {name: cut(value) for name, value in about.items()}


@contextmanager
def _hint_to_resume(scratch: Path) -> Iterator[None]:
    """Whoever is interrupted after a checkpoint is told how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if next(scratch.glob("*/step-*"), None) is not None:
            stop.args = (f"{stop} Add --resume to the same command to go on.".lstrip(),)
        raise


def _busy(console: Console, what: str) -> Any:
    return console.status(what) if console.is_terminal and not console.quiet else nullcontext()


def _listed(value: Any) -> Sequence[str]:
    if value is None:
        return []
    return [str(entry) for entry in value] if isinstance(value, list | tuple) else [str(value)]

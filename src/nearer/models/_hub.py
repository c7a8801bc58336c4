"""Models and tables on the Hugging Face hub: `hf://owner/name` is an address to load from and to write to.

What is downloaded is data: a model is read with the same checks as any other folder, and runs no code.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.datasets._table import TABLES, ending
from nearer.exceptions import MissingDataError, NearerError, ParameterError
from nearer.models._reading import on_hub as on_hub

if TYPE_CHECKING:
    from nearer.models._model import Model

# A path of the command line has lost one of the two strokes.
ADDRESS = re.compile(
    r"hf:/{1,2}(?P<kind>datasets/)?(?P<name>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<inside>.+))?"
)
TASKS = {"photos": "image-feature-extraction", "texts": "sentence-similarity"}


@contextmanager
def downloaded_model(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A model's files in a folder that goes away: the cache of the hub is made of links, which no model has."""
    owner, revision, inside = _parts(path, "")
    with _hub(path) as hub, tempfile.TemporaryDirectory() as around:
        cached = Path(hub.snapshot_download(owner, revision=revision), *([inside] if inside else []))
        yield Path(shutil.copytree(cached, Path(around) / "model", ignore=shutil.ignore_patterns(".git*")))


def downloaded_data(path: str | os.PathLike[str]) -> Path:
    """The table, or the folder of photos, that `hf://datasets/owner/name/...` names.

    Of a data set without more the one table, or the one whose name says that it is for training.
    """
    owner, revision, inside = _parts(path, "datasets/")
    about = {"repo_id": owner, "revision": revision, "repo_type": "dataset"}
    with _hub(path) as hub:
        files = hub.HfApi().list_repo_files(**about)
        tables = [file for file in files if ending(file) in TABLES]
        named = re.compile(r"(?:^|[^a-z])train(?:[^a-z]|$)")
        taught = [file for file in tables if named.search(file.lower())] if len(tables) > 1 else tables
        if inside is None and len(taught) == 1:
            inside = taught[0]
        if inside in files:
            return Path(hub.hf_hub_download(**about, filename=inside))
        if any(file.startswith(f"{inside}/") for file in files):
            return Path(hub.snapshot_download(**about, allow_patterns=f"{inside}/*")) / str(inside)
    raise MissingDataError(
        f"`{os.fspath(path)}` must name a table or a folder of the data set, such as hf://datasets/{owner}/"
        f"{next(iter(tables or files), 'train.csv')}. It has {', '.join((tables or files)[:8]) or 'no files'}."
    )


def push(model: Model, name: str, *, private: bool, token: str | None, message: str) -> str:
    """Write the model to the hub and return the address of what was written."""
    owner, revision, inside = _parts(name if on_hub(name) else f"hf://{name}", "")
    if inside:
        raise ParameterError(f"`name` must be owner/name, got {name!r}.")
    place = model.place
    with _hub(name) as hub, tempfile.TemporaryDirectory() as around:
        folder = Path(around) / owner.partition("/")[2]
        try:
            model.save(folder, pages=_pages(model, owner, place))
        finally:
            model.place = place
        api = hub.HfApi(token=token)
        api.create_repo(owner, private=private, exist_ok=True)
        done = api.upload_folder(repo_id=owner, folder_path=folder, revision=revision, commit_message=message)
        return str(done.commit_url)


def _pages(model: Model, owner: str, place: Path | None) -> dict[str, bytes]:
    """The card under what the hub reads of it: library, task, tags and the scores on held-out rows."""
    import yaml

    pages: dict[str, bytes] = {}
    if model.fitted is not None:
        from nearer.models._card import card_pages

        pages = card_pages(model.fitted, name=f"hf://{owner}")
    elif place is not None and (place / "README.md").is_file():
        pages["README.md"] = (place / "README.md").read_bytes()
    card = pages.get("README.md", f"# {owner}\n\n```\n{model}\n```\n".encode()).decode()
    front = model.inputs.encoder
    task = "feature-extraction" if front is None else TASKS[front.kind]
    about: dict[str, Any] = {
        "library_name": "nearer",
        "pipeline_tag": task,
        "tags": ["metric-learning", "similarity-search", model.method],
    }
    learned = model.scores.get("learned", {}).get("scores", {})
    if learned:
        data = {"name": str(model.data.get("name", "data")), "type": "held-out"}
        metrics = [{"type": score, "value": round(value, 4)} for score, value in learned.items()]
        result = {"task": {"type": "retrieval"}, "dataset": data, "metrics": metrics}
        about["model-index"] = [{"name": owner.partition("/")[2], "results": [result]}]
    body = re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL)
    pages["README.md"] = f"---\n{yaml.safe_dump(about, sort_keys=False)}---\n{body}".encode()
    return pages


def _parts(path: str | os.PathLike[str], kind: str) -> tuple[str, str | None, str | None]:
    found = ADDRESS.fullmatch(os.fspath(path))
    steps = "" if found is None else f"{found['name']}/{found['revision'] or 'x'}/{found['inside'] or 'x'}"
    # A step up, or to the root, would leave the repository.
    if found is None or (found["kind"] or "") != kind or {"", ".", ".."} & set(steps.split("/")):
        raise ParameterError(
            f"`path` must be an address such as hf://{kind}owner/name or hf://{kind}owner/name@revision, got "
            f"{os.fspath(path)!r}.",
            argument="path",
        )
    return found["name"], found["revision"], found["inside"]


@contextmanager
def _hub(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The package of the hub, its errors as ours."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HFValidationError
    except ImportError as error:
        raise MissingDataError("Addresses hf://... need a package. Run: pip install 'nearer[hub]'") from error
    try:
        yield huggingface_hub
    except NearerError:
        raise
    except HFValidationError as error:
        raise ParameterError(f"`path` must be an address of the hub: {error}", argument="path") from error
    except Exception as error:
        # Of several kinds, those of the network among them, which differ from version to version.
        typed = re.sub(r"^hf:/+", "hf://", os.fspath(path))  # with both of its strokes
        reason = re.split(r" For more (?:details|information)", " ".join(str(error).split()))[0].rstrip(". ")
        raise MissingDataError(
            f"`{typed}` could not be reached: {reason}. Check the name, the network, and for a private "
            f"one the token (HF_TOKEN, or `hf auth login`)."
        ) from error

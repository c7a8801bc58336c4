"""The Hugging Face hub, which a small server on this machine stands in for."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import yaml

import nearer
from nearer.exceptions import CorruptFileError, MissingDataError, ParameterError
from nearer.models import Model
from nearer.models._hub import downloaded_data, on_hub

pytest.importorskip("huggingface_hub", reason="needs the extra hub")

SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Repositories in memory: as much of the hub's interface as its own client asks for."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *words: object) -> None:
        pass

    def _send(self, body: object, code: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _repository(self, name: str) -> dict[str, bytes] | None:
        files = self.server.repositories.get(name)
        if files is None:
            self._send({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
        return files

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.seen.append(path)
        if api := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(/revision/.+|/tree/.+)?", path):
            files = self._repository(("datasets/" if api[1] == "datasets" else "") + api[2])
            if files is not None and "/tree/" in (api[3] or ""):
                self._send([{"type": "file", "path": one, "size": len(files[one]), "oid": "0"} for one in files])
            elif files is not None:
                self._send({"id": api[2], "sha": SHA, "siblings": [{"rfilename": one} for one in files]})
        elif file := re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            files = self._repository(file[1])
            if files is not None and file[2] not in files:
                self._send({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
            elif files is not None:
                content = files[file[2]]
                tag = hashlib.sha256(content).hexdigest()
                self._send(content, ETag=f'"{tag}"', X_Repo_Commit=SHA, Accept_Ranges="bytes")
        else:
            self._send({"error": "no such page"}, 404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        if path == "/api/repos/create":
            about = json.loads(body)
            name = f"{about['organization']}/{about['name']}" if about.get("organization") else about["name"]
            if about.get("private"):
                self.server.private.add(name)
            if self.headers.get("Authorization") != "Bearer hf_right":
                self._send({"error": "Invalid token"}, 401)
            elif name in self.server.repositories:
                self._send({"error": "exists", "url": f"http://{self.headers['Host']}/{name}"}, 409)
            else:
                self.server.repositories[name] = {".gitattributes": b"* text\n"}
                self._send({"url": f"http://{self.headers['Host']}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            # What the hub requires of the head of a card.
            about = yaml.safe_load(json.loads(body)["content"].split("---\n")[1])
            errors = [] if isinstance(about.get("tags"), list) else [{"message": "tags must be a list"}]
            self._send({"errors": errors, "warnings": []}, 400 if errors else 200)
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            self._send(
                {"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]}
            )
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/.+", path):
            repository = self.server.repositories[found[1]]
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    repository[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self._send(
                {
                    "commitUrl": f"http://{self.headers['Host']}/{found[1]}/commit/{SHA}",
                    "commitOid": SHA,
                    "success": True,
                }
            )
        else:
            self._send({"error": f"no such page: {path}"}, 404)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    from huggingface_hub import constants

    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def learned() -> tuple[Model, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    X = random.normal(size=(3, 4))[y] * 3 + random.normal(size=(60, 4))
    return nearer.fit(X, y, method="lda"), X.astype(np.float32)


def test_a_model_goes_to_the_hub_and_comes_back(hub: Hub) -> None:
    model, X = learned()
    assert model.push_to_hub("team/metric").endswith(SHA)
    again = nearer.load("hf://team/metric")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert (again.fingerprint, again.place) == (model.fingerprint, None)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_card_says_in_the_words_of_the_hub_what_it_is(hub: Hub) -> None:
    model, _ = learned()
    model.push_to_hub("team/metric")
    text = hub.repositories["team/metric"]["README.md"].decode()
    about = yaml.safe_load(text.split("---\n")[1])
    assert (about["library_name"], about["pipeline_tag"]) == ("nearer", "feature-extraction")
    assert about["tags"] == ["metric-learning", "similarity-search", "lda"]
    metrics = {one["type"]: one["value"] for one in about["model-index"][0]["results"][0]["metrics"]}
    assert metrics == {name: round(value, 4) for name, value in model.scores["learned"]["scores"].items()}
    assert 'nearer.load("hf://team/metric")' in text
    # The hub's own reader of cards takes it.
    from huggingface_hub import ModelCard

    assert ModelCard(text).data.eval_results[0].task_type == "retrieval"


def test_a_loaded_model_keeps_its_card(hub: Hub, tmp_path: Path) -> None:
    model, _ = learned()
    again = nearer.load(model.save(tmp_path / "model"))
    again.push_to_hub("team/first")
    # Twice: one head, not two.
    again.push_to_hub("team/first")
    text = hub.repositories["team/first"]["README.md"].decode()
    assert text.count("library_name") == text.count("## Scores on held-out rows") == 1
    # What was loaded from the hub lies in no folder: its card is made from what the model knows.
    nearer.load("hf://team/first").push_to_hub("team/second")
    made = hub.repositories["team/second"]["README.md"].decode()
    assert made.count("library_name") == made.count("type: retrieval") == 1
    assert again.place == tmp_path / "model"


def test_a_model_may_lie_in_a_folder_of_the_repository(hub: Hub, tmp_path: Path) -> None:
    model, X = learned()
    folder = model.save(tmp_path / "model")
    files = {f"v2/{path.name}": path.read_bytes() for path in folder.iterdir() if path.is_file()}
    hub.repositories["team/many"] = files
    np.testing.assert_array_equal(nearer.load("hf://team/many@main/v2").transform(X), model.transform(X))


def test_a_damaged_model_is_refused(hub: Hub) -> None:
    model, _ = learned()
    model.push_to_hub("team/metric")
    files = hub.repositories["team/metric"]
    files["parameters.safetensors"] = files["parameters.safetensors"][:-4] + b"0000"
    with pytest.raises(CorruptFileError):
        nearer.load("hf://team/metric")


def test_a_table_of_a_data_set_is_read(hub: Hub) -> None:
    rows = "\n".join(f"{i % 2 * 5 + i / 100},{i / 50},{'ab'[i % 2]}" for i in range(60))
    hub.repositories["datasets/team/pets"] = {
        "README.md": b"",
        "data/train.csv": f"x,z,kind\n{rows}\n".encode(),
        "data/test.csv": b"x,z,kind\n1,2,a\n",
    }
    for address in ("hf://datasets/team/pets", "hf://datasets/team/pets/data/train.csv"):
        model = nearer.fit(address, "kind", method="lda")
        assert (model.data["rows"], model.classes) == (60, ("a", "b"))
    folder = downloaded_data("hf://datasets/team/pets/data")
    assert sorted(path.name for path in folder.iterdir()) == ["test.csv", "train.csv"]


def test_the_commands_take_addresses(hub: Hub, tmp_path: Path) -> None:
    model, X = learned()
    model.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", X[:3])
    for words in (
        ["export", str(tmp_path / "model"), "--out", "hf://team/metric"],
        ["embed", str(tmp_path / "new.npy"), "--model", "hf://team/metric", "--out", str(tmp_path / "out.npy")],
    ):
        command = [sys.executable, "-m", "nearer", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.transform(X[:3]), rtol=1e-6)


def test_what_the_page_shows_runs(hub: Hub) -> None:
    """The other blocks of the pages run by themselves; this one needs the stand-in."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()
    rows = "\n".join(f"{i % 2 * 5 + i / 100},{i / 50},{'ab'[i % 2]}" for i in range(60))
    hub.repositories["datasets/owner/name"] = {"train.csv": f"x,z,species\n{rows}\n".encode()}
    (block,) = re.findall(r"^```py\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    names = {"nearer": nearer, "model": learned()[0]}
    exec(block, names)
    assert names["model"].classes == ("a", "b")
    assert "README.md" in hub.repositories["owner/name"]


@pytest.mark.parametrize(
    "address", ["hf://a/b//etc", "hf://a/b//", "hf://a/b/../..", "hf://a/b@..", "hf://../b", "hf://a/b/c/./d"]
)
def test_an_address_stays_inside_of_its_repository(hub: Hub, address: str) -> None:
    hub.repositories["a/b"] = {"manifest.json": b"{}"}
    for call in (nearer.load, lambda path: downloaded_data(path.replace("hf://", "hf://datasets/"))):
        with pytest.raises(ParameterError, match="must be an address such as"):
            call(address)
    assert not hub.seen


def test_without_a_network_the_error_is_ours(hub: Hub) -> None:
    hub.shutdown()
    hub.server_close()
    model, _ = learned()
    for call in (lambda: nearer.load("hf://team/metric"), lambda: model.push_to_hub("team/metric")):
        with pytest.raises(MissingDataError, match="could not be reached"):
            call()


@pytest.mark.parametrize("address", ["hf://name", "hf://a/b/c@d", "hf://datasets/a/b"])
def test_what_is_no_address_of_a_model_is_refused(address: str) -> None:
    with pytest.raises((ParameterError, MissingDataError), match="hf://"):
        nearer.load(address)


def test_what_is_not_there_is_named(hub: Hub) -> None:
    model, _ = learned()
    with pytest.raises(MissingDataError, match="hf://team/nothing` could not be reached"):
        nearer.load("hf://team/nothing")
    with pytest.raises(MissingDataError, match="token"):
        model.push_to_hub("team/metric", token="hf_wrong")
    assert "team/metric" not in hub.repositories
    hub.repositories["datasets/team/pets"] = {"a.csv": b"", "b.csv": b""}
    with pytest.raises(MissingDataError, match=r"hf://datasets/team/pets/a\.csv\. It has a\.csv, b\.csv"):
        downloaded_data("hf://datasets/team/pets")


def test_a_path_of_the_command_line_has_lost_a_stroke() -> None:
    assert [on_hub(one) for one in (Path("hf://team/metric"), "hf", None)] == [True, False, False]

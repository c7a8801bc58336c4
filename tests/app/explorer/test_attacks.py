"""A data set from a stranger brings no word, no links and no crash; nobody else learns the address of the page."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import webbrowser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra `explore`")
pytest.importorskip("uvicorn", reason="needs the extra `explore`")

from nearer.app.explorer._items import ShownItems
from nearer.app.explorer._launch import ServedSession, keep_address, last_address
from nearer.app.explorer._session import Session
from nearer.exceptions import CorruptFileError, ParameterError

MANY = int(os.environ.get("NEARER_SERVER_FUZZ", "300"))
WORD = "A" * 24


def items() -> ShownItems:
    rng = np.random.default_rng(0)
    return ShownItems(
        rng.normal(size=(60, 4)).astype(np.float32), labels=np.arange(60) % 3, classes=("a", "b", "c")
    )


@pytest.mark.parametrize("word", [WORD, "", "x"])
def test_the_word_never_comes_from_beside_the_data(tmp_path: Path, word: str) -> None:
    project = tmp_path / "data.explore"
    project.mkdir()
    given = {"port": 8000, "token": word, "word": word}
    (project / "address").write_text(json.dumps(given))
    os.chmod(project / "address", 0o600)
    served = ServedSession(Session(items(), project=project))
    try:
        found = urlsplit(served.url).path.strip("/")
        assert found != word
        assert len(found) == 24
    finally:
        served.session.close()
        served._socket.close()
    assert json.loads((project / "address").read_text()) == given, "nobody looked at it"


def test_a_session_that_is_started_again_has_its_address_again(tmp_path: Path, state: Path) -> None:
    urls = []
    for _ in range(2):
        with ServedSession(Session(items(), project=tmp_path / "one.explore")).start() as served:
            urls.append(served.url)
    assert urls[0] == urls[1]
    with ServedSession(Session(items(), project=tmp_path / "two.explore")).start() as served:
        assert urlsplit(served.url).path != urlsplit(urls[0]).path
    (file, _) = (state / "nearer" / "explore").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_an_address_that_others_may_write_is_not_used(tmp_path: Path, state: Path) -> None:
    project = tmp_path / "data.explore"
    keep_address(project, 8000, WORD)
    assert last_address(project) == (8000, WORD)
    (file,) = (state / "nearer" / "explore").iterdir()
    for text in (
        "",
        "[]",
        "7",
        "{",
        '{"port": 8000, "word": ""}',
        json.dumps({"port": True, "word": WORD}),
        "[" * 999,
    ):
        file.write_text(text)
        assert last_address(project) is None
    keep_address(project, 8000, WORD)
    file.chmod(0o666)
    assert last_address(project) is None
    file.unlink()
    other = tmp_path / "other"
    other.write_text(json.dumps({"port": 8000, "word": WORD}))
    other.chmod(0o600)
    file.symlink_to(other)
    assert last_address(project) is None
    keep_address(project, 8000, "B" * 24)
    assert json.loads(other.read_text())["word"] == WORD, "the link was replaced, not followed"


@pytest.mark.parametrize("name", ["gestures.json", "lock", "metric", "address", "", ".gestures.json.saving"])
@pytest.mark.parametrize("there", [True, False], ids=["to-something", "to-nothing"])
def test_links_in_a_project_lead_nowhere(tmp_path: Path, name: str, there: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    folder = name in ("", "metric", ".gestures.json.saving")
    target = home / ("work" if folder else ".bashrc")
    if there and folder:
        (target / "new").mkdir(parents=True)
        (target / "new" / "thesis.txt").write_text("ten years")
    elif there:
        target.write_text("export PATH\n")
    before = sorted(str(path) for path in home.rglob("*"))
    project = tmp_path / "data.explore"
    if name:
        project.mkdir()
        (project / name).symlink_to(target)
    else:
        project.symlink_to(target)
    try:
        session = Session(items(), project=project)
    except (CorruptFileError, ParameterError) as error:
        assert "link" in str(error), error  # noqa: PT017
    else:
        served = ServedSession(session)
        served._socket.close()
        try:
            session.say({"kind": "label", "items": [1], "label": "b"})
            session.refit()
            session.undo()
        except OSError as error:
            assert "Delete it" in str(error), error  # noqa: PT017
        finally:
            session.close()
    assert sorted(str(path) for path in home.rglob("*")) == before
    if there and not folder:
        assert target.read_text() == "export PATH\n"


def test_a_pipe_in_a_project_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("gestures.json", "lock"):
        project = tmp_path / f"{name}.explore"
        project.mkdir()
        os.mkfifo(project / name)
        with pytest.raises(CorruptFileError, match=r"it is not an ordinary file\. Move it away"):
            Session(items(), project=project)


def test_the_word_is_not_in_the_command_that_opens_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser of ours writes down how it was called, and what the file says that it was called with."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(
        f'#!/bin/sh\n(echo "$@"; ls -ld "$(dirname "${{1#file://}}")"; cat "${{1#file://}}") > {seen}\n'
    )
    browser.chmod(0o755)
    monkeypatch.setattr(webbrowser, "open", webbrowser.GenericBrowser(str(browser)).open)
    with ServedSession(Session(items(), project=tmp_path / "d.explore")).start() as served:
        served.show()
        called, rights, page = seen.read_text().split("\n", 2)
    word = urlsplit(served.url).path.strip("/")
    assert len(word) == 24
    assert word not in called
    assert called.startswith("file://")
    assert f"url={served.url}" in page
    assert rights.startswith("drwx------")
    door = Path(called.removeprefix("file://"))
    assert not door.exists(), "it goes with the session"
    assert not door.parent.exists()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedSession]:
    with ServedSession(Session(items(), project=tmp_path / "fuzz.explore")).start() as found:
        yield found


def ask(
    served: ServedSession, method: str, path: str, body: bytes | None = None, content: str = "application/json"
) -> int:
    place = urlsplit(served.url)
    link = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=120)
    link.request(method, place.path + path, body, {"content-type": content})
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer.status


POSTS = ["say", "undo", "redo", "refit", "spread", "cards", "similar"]


def test_bodies_that_are_no_objects_or_too_deep_are_refused(served: ServedSession) -> None:
    deep = b"[" * 200_000
    odd = [
        b"7",
        b'"x"',
        b"[]",
        b"true",
        b"[1]",
        deep,
        b'{"a":' * 5000,
        b'{"a": NaN}',
        b"9" * 5000,
        b"\xff",
    ]
    for path in POSTS:
        for body in odd:
            assert ask(served, "POST", f"api/{path}", body) == 400, (path, body[:20])


def anything(chance: random.Random, depth: int = 3) -> Any:
    plain = [
        None,
        True,
        -1,
        0,
        7,
        59,
        60,
        2**70,
        1e308,
        -0.5,
        "",
        "x",
        "tsne",
        "ä\ud83d\ude00",
        "\x1b[31m",
        "label",
    ]
    kind = chance.random()
    if depth == 0 or kind < 0.6:
        return chance.choice(plain)
    if kind < 0.8:
        return [anything(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    return {str(chance.choice(plain)): anything(chance, depth - 1) for _ in range(chance.randint(0, 4))}


def test_random_requests_end_in_an_answer(served: ServedSession) -> None:
    """No 500 and no exception in a thread, whatever is asked."""
    chance = random.Random(0)
    fields = [
        "kind",
        "items",
        "others",
        "anchor",
        "label",
        "key",
        "item",
        "text",
        "photo",
    ]
    kinds = ["label", "together", "apart", "same", "keep", "drop", "refit"]
    gets = ["overview", "positions", "colors", "export", "scores", "search", "suggestions"]
    statuses: Counter[int] = Counter()
    failures: list[Any] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        for _ in range(MANY):
            if chance.random() < 0.4:
                number = str(chance.choice(["0", "7", "60", "-1", "9" * 30, "9" * 5000, "x", "%00", "1.5"]))
                word = chance.choice(["label", "learned", "raw", "distance", "", "x" * 300, "%ff", number])
                gotten = chance.choice(gets)
                path = chance.choice(
                    [f"api/{gotten}", f"api/{gotten}?by={word}&map={word}&q={word}", f"api/item/{number}",
                     f"api/card/{number}", f"api/image/{number}", f"api/edit/{number}",
                     f"api/image/{number}?size={word}",
                     f"api/examples/{number}?label={word}", number, "api/", "../", "page.js"]
                )  # fmt: skip
                status = ask(served, chance.choice(["GET", "GET", "GET", "HEAD", "DELETE"]), path)
            else:
                body = {field: anything(chance) for field in fields if chance.random() < 0.5}
                if chance.random() < 0.5:
                    body |= {"kind": chance.choice(kinds), "items": [chance.randrange(60) for _ in range(3)]}
                path = chance.choice(["say", "say", "cards", "similar", "spread", "undo", "redo"])
                status = ask(served, "POST", f"api/{path}", json.dumps(body).encode())
            statuses[status] += 1
            assert status < 500, (path, statuses)
    finally:
        threading.excepthook = before
    assert not failures
    assert {200, 400, 404} <= set(statuses)

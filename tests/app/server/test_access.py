"""Who may ask: tokens, scopes, hosts, TLS."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess

import pytest
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.app.client import Client, ServerError
from nearer.app.server import Settings
from nearer.app.server._settings import Tokens
from nearer.exceptions import MissingDataError, ParameterError
from nearer.index import open_index
from running_server import ROWS, make_index, make_model, running

READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    place = tmp_path_factory.mktemp("guarded")
    make_index(place / "index", make_model(place / "model"), ROWS)
    (place / "tokens").write_text(f"# ours\nread {READ}\nwrite {WRITE}\n")
    with running(
        place / "model", place / "index", "--tokens", str(place / "tokens"), "--host", "0.0.0.0"
    ) as server:
        server.host = "127.0.0.1"
        yield server


SEARCH = ("POST", "/search", {"vectors": [[1, 2, 3, 4]]})
ADD = ("POST", "/items", {"vectors": [[1, 2, 3, 4]]})


@pytest.mark.parametrize(
    ("asked", "given", "status"),
    [
        (SEARCH, None, 401),
        (SEARCH, "Bearer wrong-0123456789abcdef", 401),
        (SEARCH, f"Basic {READ}", 401),
        (SEARCH, "Bearer ", 401),
        (SEARCH, f"Bearer {READ}", 200),
        (SEARCH, f"bearer  {READ}", 200),
        (SEARCH, f"Bearer {WRITE}", 200),
        (ADD, None, 401),
        (ADD, f"Bearer {READ}", 403),
        (ADD, f"Bearer {WRITE}", 201),
        (("DELETE", "/items/3", None), f"Bearer {READ}", 403),
        (("DELETE", "/items/3", None), f"Bearer {WRITE}", 200),
        (("POST", "/reload", None), f"Bearer {READ}", 403),
        (("POST", "/reload", None), f"Bearer {WRITE}", 200),
        (("GET", "/metrics", None), None, 401),
        (("GET", "/metrics", None), f"Bearer {READ}", 200),
        (("GET", "/status", None), None, 401),
        (("GET", "/health", None), None, 200),
        (("GET", "/docs", None), None, 200),
        (("GET", "/unknown", None), None, 401),
    ],
)
def test_a_token_opens_what_its_scope_says(guarded, asked, given, status) -> None:
    method, path, body = asked
    came, answer, headers = guarded.ask(method, path, body, headers={"authorization": given} if given else {})
    assert came == status
    if status == 401:
        assert headers["www-authenticate"] == "Bearer"
        assert answer["error"]["code"] in ("no_token", "wrong_token")
    assert READ not in guarded.log.read_text()


def test_new_tokens_are_read_on_hang_up(guarded) -> None:
    tokens = guarded.log.parent / "tokens"
    tokens.write_text(f"read {READ}\nwrite {WRITE}\nread {READ}-new\n")
    guarded.process.send_signal(signal.SIGHUP)
    with Client(f"http://127.0.0.1:{guarded.port}", token=READ + "-new", retries=0) as client:
        statuses = [guarded.ask("GET", "/health")[0]]
        while statuses[-1] != 0:
            try:
                client.status()
                statuses.append(0)
            except ServerError as error:
                statuses.append(error.status)
        assert set(statuses) <= {200, 401, 0}
        assert client.status()["dimension"] == 4
        tokens.write_text("nonsense")
        guarded.process.send_signal(signal.SIGHUP)
        assert client.status()["dimension"] == 4


def test_a_page_of_the_web_cannot_use_the_browser_as_its_way_in(server) -> None:
    assert server.ask(*SEARCH, headers={"host": "evil.example"})[0] == 421
    assert server.ask(*SEARCH, headers={"host": f"localhost:{server.port}"})[0] == 200
    # A form of another page can send text, not JSON, without asking first; and asking is not answered.
    assert server.ask("POST", "/items", b'{"vectors": [[1,2,3,4]]}', content="text/plain")[0] == 415
    status, _, headers = server.ask("OPTIONS", "/items", headers={"origin": "http://evil.example"})
    assert status == 405
    assert not [name for name in headers if name.startswith("access-control")]


def test_beyond_this_machine_tokens_are_needed() -> None:
    with pytest.raises(ParameterError, match="`tokens` must be given to listen on 0"):
        Settings(host="0.0.0.0")
    for host in ("127.0.0.1", "::1", "localhost", "127.3.2.1"):
        assert Settings(host=host).loopback
    assert not Settings(host="example.org", tokens=Tokens({READ: "read"})).loopback


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got none"),
        ("# nothing\n", "got none"),
        ("admin 0123456789abcdef", "line 1 is not"),
        ("read\n", "line 1 is not"),
        ("read short", "at least 16 characters"),
        ("read 0123456789abcdé", "of ASCII"),
    ],
)
def test_a_bad_token_file_is_refused_without_showing_it(text, words) -> None:
    with pytest.raises(ParameterError, match=words) as refused:
        Tokens.parse(text, source="tokens.txt")
    assert "0123456789abcd" not in str(refused.value)


def test_tokens_come_from_the_environment(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("NEARER_TOKENS", f"read {READ},write {WRITE}")
    found = Tokens.read(None)
    assert found is not None
    assert (found.scope(READ), found.scope(WRITE), found.scope("")) == ("read", "write", None)
    monkeypatch.delenv("NEARER_TOKENS")
    assert Tokens.read(None) is None
    with pytest.raises(MissingDataError, match="cannot be read"):
        Tokens.read(tmp_path / "missing")


def test_settings_say_what_they_must_be(tmp_path) -> None:
    with pytest.raises(ParameterError, match="must be given together"):
        Settings(tls_key=tmp_path)
    with pytest.raises(MissingDataError, match="`tls_certificate` must be a PEM file"):
        Settings(tls_key=tmp_path, tls_certificate=tmp_path / "none")
    with pytest.raises(ParameterError, match="log"):
        Settings(log="some")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_by_files(tmp_path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    make_index(tmp_path / "index", make_model(tmp_path / "model"), ROWS)
    options = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with running(tmp_path / "model", tmp_path / "index", *options) as server:
        assert server.address.startswith("https://")
        with Client(server.address, verify=certificate) as client:
            assert client.search(vectors=ROWS[:1], k=1)[0][0].id == 0
        with pytest.raises(ServerError, match=r"(?i)certificate"):
            Client(server.address, retries=0).status()
        with socket.create_connection(("127.0.0.1", int(server.port))) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200" not in plain.recv(100)


def refused(*arguments: str) -> str:
    came = CliRunner().invoke(app, ["serve", *arguments])
    assert came.exit_code == 1
    return came.stderr


def test_what_cannot_be_served_is_said_at_the_start(tmp_path) -> None:
    model = make_model(tmp_path / "model")
    other = make_model(tmp_path / "other", scale=2.0)
    assert model.fingerprint != other.fingerprint
    make_index(tmp_path / "index", model, ROWS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("no index")
    place = str(tmp_path / "model")
    assert "another model" in refused(str(tmp_path / "other"), str(tmp_path / "index"))
    assert "letter" not in (told := refused(place, str(tmp_path / "folder")))
    assert "index" in told
    assert "must be given to listen" in refused(place, str(tmp_path / "index"), "--host", "0.0.0.0")
    assert "nothing" in refused(str(tmp_path / "nothing"), str(tmp_path / "index"))


def test_an_index_that_is_not_there_is_made_only_when_asked_for(tmp_path) -> None:
    model = make_model(tmp_path / "model")
    told = refused(str(tmp_path / "model"), str(tmp_path / "nowhere"))
    assert "there is none" in told
    assert "`--create` makes an empty index" in " ".join(told.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"], "nothing was made"
    with running(tmp_path / "model", tmp_path / "nowhere", "--create") as server:
        assert server.ask("GET", "/status")[1]["nearer_index_items"] == 0
        assert server.ask("POST", "/items", {"vectors": ROWS[:2].tolist()})[0] == 201
        shutil.move(tmp_path / "nowhere", tmp_path / "away")
        status, answer, _ = server.ask("POST", "/reload")
        assert (status, answer["error"]["code"]) == (409, "not_reloaded")
        assert not (tmp_path / "nowhere").exists(), "what has gone is not made again"
        shutil.move(tmp_path / "away", tmp_path / "nowhere")
        assert server.ask("POST", "/reload")[0] == 200
    with open_index(tmp_path / "nowhere", fingerprint=model.fingerprint, read_only=True) as index:
        assert len(index) == 2

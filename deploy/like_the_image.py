"""What deploy/Dockerfile does, without a container engine: python deploy/like_the_image.py

The extras, the command and the health check are read from the Dockerfile. A fresh environment gets torch and then
the wheel of dist/ with these extras, as in the build stage; in an empty folder a model and an index are made, the
image's command is started with a token, the health check must pass, a search must be answered with the token
and refused without it, and SIGTERM must end it with exit code 0. Not covered: the base image, apt, users, volumes.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "a-token-for-this-test-that-is-long-enough"
PREPARE = """
import nearer
from sklearn.datasets import load_iris
from nearer.models import embed_stream
frame = load_iris(as_frame=True).frame
model = nearer.fit(frame, "target", method="lfda")
model.save("model")
frame.to_csv("iris.csv", index=False)
embed_stream(model, "iris.csv", "index")
"""


def instructions() -> dict[str, Any]:
    """The parts of the Dockerfile that are run here."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()

    def words(name: str) -> list[str]:
        found = re.search(rf"^(?:{name}|    {name}) (\[.*\])$", text, re.MULTILINE)
        assert found is not None, f"{name} must be a list of words"
        listed: list[str] = json.loads(found.group(1))
        return listed

    extras = re.search(r"nearer\[([\w,]+)\]", text)
    assert extras is not None
    health = re.search(r"^HEALTHCHECK .*\n\s+CMD (\[.*\])$", text, re.MULTILINE)
    assert health is not None
    command = re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert command is not None
    return {
        "extras": extras.group(1),
        "entry": words("ENTRYPOINT"),
        "command": json.loads(command.group(1)),
        "health": json.loads(health.group(1)),
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def ask(port: int, token: str | None) -> int:
    """The status of a search."""
    body = json.dumps({"items": [[5.1, 3.5, 1.4, 0.2]], "k": 3}).encode()
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/search", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert len(json.load(answer)["results"][0]) == 3
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def main() -> None:
    parts = instructions()
    wheels = sorted((ROOT / "dist").glob("nearer-*.whl"))
    if not wheels:
        sys.exit("dist/ must have the wheel: run `make dist` first.")
    with tempfile.TemporaryDirectory(prefix="nearer-image-") as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / "bin"
        pip = [programs / "pip", "install", "--quiet", "--no-cache-dir", "--constraint", ROOT / "constraints.txt"]
        for what in ("torch", f"nearer[{parts['extras']}] @ {wheels[-1].as_uri()}"):
            print(f"installing {what.partition(' @')[0]}", flush=True)
            subprocess.run([*pip, what], check=True)
        data = folder / "data"
        data.mkdir()
        subprocess.run([programs / "python", "-I", "-c", PREPARE], check=True, cwd=data)
        port = free_port()
        command = [str(programs / parts["entry"][0]), *parts["entry"][1:], *parts["command"], "--port", str(port)]
        environment = {**os.environ, "NEARER_TOKENS": f"write {TOKEN}"}
        environment.pop("PYTHONPATH", None)
        health = [
            str(programs / parts["health"][0]),
            *(word.replace("8080", str(port)) for word in parts["health"][1:]),
        ]
        with subprocess.Popen(command, cwd=data, env=environment) as process:
            try:
                last = time.monotonic() + 300
                while subprocess.run(health, capture_output=True).returncode:
                    assert process.poll() is None, "the service has ended"
                    assert time.monotonic() < last, "the health check never passed"
                    time.sleep(0.5)
                assert ask(port, TOKEN) == 200
                assert ask(port, None) == 401
            finally:
                process.terminate()
        assert process.returncode == 0, f"exit code {process.returncode}"
    print("healthy, answers with the token, refuses without it, ends with 0")


if __name__ == "__main__":
    main()

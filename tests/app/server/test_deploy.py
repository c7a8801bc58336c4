"""What can be said of the image without a container engine: its files are well formed and name what exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import yaml
from typer.testing import CliRunner

from nearer.app.cli import app

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = set(re.findall(r"--[\w-]+", CliRunner().invoke(app, ["serve", "--help"]).output))


def test_the_image_installs_extras_that_exist_and_runs_as_nobody_special() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.search(r"nearer\[([\w,]+)\]", text)
    assert named is not None
    assert set(named.group(1).split(",")) <= set(extras)
    last = text.rpartition("FROM ")[2]
    assert "USER nearer" in last
    instructions = re.findall(r"^([A-Z]+) ", text, re.MULTILINE)
    assert set(instructions) <= {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL",
                                 "HEALTHCHECK", "ENTRYPOINT", "CMD"}  # fmt: skip
    command = re.search(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    assert command is not None
    assert set(re.findall(r"--[\w-]+", command.group(1))) <= OPTIONS


def test_the_compose_file_names_its_own_parts() -> None:
    found = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    services = found["services"]
    assert set(services["nearer"]["depends_on"]) <= set(services)
    for service in services.values():
        assert set(service.get("secrets", [])) <= set(found["secrets"])
    # pgvector before 0.8 gives fewer than k rows behind a filter.
    assert services["database"]["image"].partition(":")[2] >= "0.8"
    words = shlex.split(services["nearer"]["command"][0].replace("$$", "$"))
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert words[words.index("nearer") + 1] == "serve"


def test_what_is_run_instead_of_the_image_is_read_from_its_file() -> None:
    spec = importlib.util.spec_from_file_location("like_the_image", ROOT / "deploy" / "like_the_image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = module.instructions()
    assert parts["entry"] == ["nearer", "serve"]
    assert parts["command"][:2] == ["model", "index"]
    assert "8080" in parts["health"][-1]
    assert "serve" in parts["extras"].split(",")

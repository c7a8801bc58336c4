"""What can be said of the image without a container engine: its files are well formed and name what exists."""

from __future__ import annotations

import configparser
import importlib.util
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import yaml
from typer.testing import CliRunner

from nearer.app.cli import app
from nearer.app.server import Settings
from nearer.app.server import _endpoints as endpoints

ROOT = Path(__file__).resolve().parents[3]
PATHS = set(re.findall(r'Endpoint\("[A-Z]+", "(/\w+)"', inspect.getsource(endpoints)))
OPTIONS = set(re.findall(r"--[\w-]+", CliRunner().invoke(app, ["serve", "--help"]).output))


def test_the_image_installs_extras_that_exist_and_runs_as_nobody_special() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.search(r"nearer\[([\w,]+)\]", text)
    assert named is not None
    assert set(named.group(1).split(",")) <= set(extras)
    assert {"serve", "photos", "text", "tables", "postgres"} <= set(named.group(1).split(","))
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


def served(words: list[str]) -> None:
    """What follows `nearer serve` has options that there are, and tokens."""
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert "--tokens" in words
    if "--port" in words:
        assert words[words.index("--port") + 1] == "8080"


def test_the_unit_of_systemd() -> None:
    text = (ROOT / "deploy" / "nearer.service").read_text()
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[0].startswith("/")
    assert words[1] == "serve"
    served(words[2:])
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    assert service["KillSignal"] == "SIGTERM"
    assert int(service["TimeoutStopSec"]) > Settings().timeout
    assert service["WorkingDirectory"] in service["ReadWritePaths"]
    assert unit["Install"]["WantedBy"]


def test_the_configuration_of_nginx() -> None:
    text = re.sub(r"#.*", "", (ROOT / "deploy" / "nginx.conf").read_text())
    depth = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line.endswith(("{", "}", ";")), line
        depth += line.count("{") - line.count("}")
        assert depth >= 0
    assert depth == 0
    assert f"server 127.0.0.1:{Settings().port};" in text
    upstreams = set(re.findall(r"^upstream (\w+)", text, re.MULTILINE))
    assert set(re.findall(r"proxy_pass http://(\w+);", text)) == upstreams
    size = re.search(r"client_max_body_size (\d+)m", text)
    assert size is not None
    assert int(size[1]) << 20 == Settings().max_body
    inside = re.search(r"location ~ \^/\(([\w|]+)\)\$", text)
    assert inside is not None
    assert {f"/{name}" for name in inside[1].split("|")} <= PATHS


def test_the_manifests_of_kubernetes() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
    volume, deployment, service = documents
    assert [one["kind"] for one in documents] == ["PersistentVolumeClaim", "Deployment", "Service"]
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]
    # One process writes an index in a folder.
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"]["type"] == "Recreate"
    spec = pod["spec"]
    assert spec["terminationGracePeriodSeconds"] > Settings().timeout
    (container,) = spec["containers"]
    served(list(map(str, container["args"])))
    (port,) = container["ports"]
    assert port["containerPort"] == Settings().port
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in PATHS
        assert container[probe]["httpGet"]["port"] == port["name"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"][container["args"].index("--tokens") + 1].startswith(mounts["tokens"])
    claims = {one.get("persistentVolumeClaim", {}).get("claimName") for one in spec["volumes"]} - {None}
    assert claims == {volume["metadata"]["name"]}


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

"""What is uploaded: the wheel holds the package and nothing else, and its metadata say what it is.

`make dist` also installs it into a fresh environment and uses it there (deploy/distribution.py).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _distribution() -> ModuleType:
    spec = importlib.util.spec_from_file_location("distribution", ROOT / "deploy" / "distribution.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of the tree, the sdist, and the wheel of the sdist."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; it is in the extra dev")
    folder = tmp_path_factory.mktemp("dist")
    code = (
        "import sys, hatchling.build as b, tarfile, os\n"
        "out = sys.argv[1]\n"
        "b.build_wheel(out)\n"
        "name = b.build_sdist(out)\n"
        "tarfile.open(os.path.join(out, name)).extractall(os.path.join(out, 'sdist'), filter='data')\n"
        "os.chdir(os.path.join(out, 'sdist', name.removesuffix('.tar.gz')))\n"
        "b.build_wheel(os.path.join(out, 'again'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True, env=os.environ.copy()
    )
    assert done.returncode == 0, done.stderr
    (wheel,), (sdist,), (again,) = folder.glob("*.whl"), folder.glob("*.tar.gz"), (folder / "again").glob("*.whl")
    return {"wheel": wheel, "sdist": sdist, "again": again}


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    assert _distribution().problems(built["wheel"]) == []
    assert built["wheel"].name == f"nearer-{PROJECT['version']}-py3-none-any.whl"
    assert built["wheel"].stat().st_size < 3_000_000


def test_the_sdist_builds_the_same_wheel(built: dict[str, Path]) -> None:
    digests = _distribution().digests
    assert digests(built["wheel"]) == digests(built["again"])


def test_a_wheel_with_a_test_or_without_the_page_is_refused(built: dict[str, Path], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.whl"
    with zipfile.ZipFile(built["wheel"]) as source, zipfile.ZipFile(wrong, "w") as target:
        for name in source.namelist():
            if not name.endswith("page.js"):
                target.writestr(name, source.read(name))
        target.writestr("nearer/losses/test_raw.py", "")
        target.writestr("tests/every_loss.py", "")
    found = _distribution().problems(wrong)
    for part in ("page.js is missing", "test_raw.py must not be", "tests/every_loss.py must not be"):
        assert any(part in line for line in found), found


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_metadata_agree_with_the_repository(built: dict[str, Path]) -> None:
    found = _metadata(built["wheel"])
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["Version"] == PROJECT["version"] == citation["version"]
    assert found["License-Expression"] == citation["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert {found["Author"]} == {author["name"] for author in citation["authors"]}
    assert "metric learning" in found["Keywords"]
    assert "```python" in str(found.get_payload())  # the README is the description, deploy/smoke.py runs its lines


def test_the_python_versions_are_those_that_are_tested(built: dict[str, Path]) -> None:
    found = _metadata(built["wheel"])
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    tested = set(re.findall(r'"(3\.\d+)"', workflow))
    classified = {
        line.rpartition(" ")[2] for line in found.get_all("Classifier", []) if re.search(r":: 3\.\d+$", line)
    }
    assert classified == tested
    assert found["Requires-Python"] == f">={min(tested, key=lambda name: int(name[2:]))}"


def test_the_classifiers_exist() -> None:
    known = pytest.importorskip("trove_classifiers", reason="it comes with hatchling").classifiers
    assert set(PROJECT["classifiers"]) <= set(known)
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_every_extra_is_in_the_table_of_the_install_page() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    listed = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert listed == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_the_readme_installs_what_its_lines_need() -> None:
    """Its first block makes a DataFrame: without pandas a newcomer's first step would end in an ImportError."""
    text = (ROOT / "README.md").read_text()
    needs_pandas = "as_frame=True" in text
    installed = re.search(r"^pip install (.+?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert installed is not None
    assert ("[tables" in installed.group(1)) == needs_pandas

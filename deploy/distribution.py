"""`make dist`: build the sdist and the wheel, and use the wheel as a stranger would.

    1. build both (`python -m build`), and the wheel a second time from the sdist: the same files, byte for byte;
    2. look inside: the explorer's page, type stubs and py.typed are there, tests are not;
    3. `twine check --strict`;
    4. install the wheel with plain pip into a fresh environment outside of the repository and run deploy/smoke.py
       in it: commands, `nearer demo`, then the README's Python lines.

Environments are made in a temporary folder; dist/ has the two files afterwards. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ("index.html", "page.js", "page.css", "LICENSES.txt")
NEEDED = ["nearer/py.typed", "nearer/__init__.pyi", "nearer/losses/__init__.pyi"]
NEEDED += [f"nearer/app/explorer/assets/{name}" for name in ASSETS]


def digests(wheel: Path) -> dict[str, str]:
    """SHA-256 of every file in a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in sorted(archive.namelist())}


def problems(wheel: Path) -> list[str]:
    """What is wrong with the contents of a wheel, nothing if all is well."""
    inside = set(digests(wheel))
    found = [f"{name} is missing" for name in NEEDED if name not in inside]
    package = ROOT / "src" / "nearer"
    ours = {
        f"nearer/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.suffix in {".py", ".pyi", ".typed", ".html", ".js", ".css", ".txt"} or path.name == "py.typed"
    }
    found += [f"{name} is in src but not in the wheel" for name in sorted(ours - inside)]
    strange = [name for name in inside if not name.startswith("nearer/") and ".dist-info/" not in name]
    tests = [name for name in inside if "test" in Path(name).name and name.endswith(".py")]
    compiled = [name for name in inside if name.endswith((".pyc", ".so", ".whl"))]
    return found + [f"{name} must not be in the wheel" for name in sorted({*strange, *tests, *compiled})]


def run(*command: str | Path, **settings: object) -> None:
    """Run a command, shown first; a failure ends everything."""
    print("$", " ".join(str(part) for part in command), flush=True)
    subprocess.run([str(part) for part in command], check=True, **settings)  # type: ignore[call-overload]


def fresh(folder: Path) -> Path:
    """The Python of a new environment that sees nothing of this one."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def build(folder: Path, out: Path) -> tuple[Path, Path]:
    """sdist and wheel in `out`, checked."""
    tools = fresh(folder / "tools")
    run(tools, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", "build", "twine")
    out.mkdir(exist_ok=True)
    for old in (*out.glob("nearer-*.whl"), *out.glob("nearer-*.tar.gz")):
        old.unlink()
    # Without options `build` makes the wheel from the sdist; the second one comes from the tree.
    run(tools, "-m", "build", "--outdir", out, ROOT)
    run(tools, "-m", "build", "--wheel", "--outdir", folder / "again", ROOT)
    (sdist,), (wheel,), (again,) = out.glob("*.tar.gz"), out.glob("*.whl"), (folder / "again").glob("*.whl")
    if digests(wheel) != digests(again):
        sys.exit("The wheel from the sdist must be the wheel from the tree; it is not.")
    if wrong := problems(wheel):
        sys.exit("\n".join(wrong))
    run(tools, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def use(folder: Path, wheel: Path, *, demo_epochs: int) -> None:
    """Install the wheel and run what a stranger runs, in an empty folder."""
    python = fresh(folder / "stranger")
    pip = (python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    empty = folder / "empty"
    empty.mkdir()
    run(*pip, "torch")  # first and alone, as the Makefile does: the build without GPU packages
    run(*pip, wheel)
    run(python, "-I", ROOT / "deploy" / "smoke.py", "--epochs", str(demo_epochs), cwd=empty)
    run(*pip, f"{wheel}[tables]")  # the README begins with a DataFrame
    run(python, "-I", ROOT / "deploy" / "smoke.py", "--readme", cwd=empty)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--epochs", type=int, default=100, help="of `nearer demo` (default: 100, as it comes)")
    options.add_argument("--build-only", action="store_true", help="build and check, do not install")
    given = options.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nearer-dist-") as name:
        sdist, wheel = build(Path(name), ROOT / "dist")
        if not given.build_only:
            use(Path(name), wheel, demo_epochs=given.epochs)
    for path in (sdist, wheel):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.2f} MB")
    if "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]:
        print("Before an upload: pyproject.toml has no [project.urls]; the repository has no public address yet.")
    print(f"all checked in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

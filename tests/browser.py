"""A real browser for the tests of the page: Debian's Chromium through Playwright, software WebGL."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONG = os.environ.get("NEARER_BROWSER") == "long"


def missing() -> str:
    """Why there is no browser to test in; empty where there is one."""
    for name in ("playwright", "starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            return f"needs {name}: pip install 'nearer[dev]'"
    return "" if CHROMIUM else "needs Chromium, such as Debian's package chromium"


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Tab:
    """One page: what it complains of is collected, and every request must stay on this machine."""

    def __init__(self, browser: Any, url: str, *, wide: int = 1280, high: int = 800, **settings: Any) -> None:
        self.context = browser.new_context(viewport={"width": wide, "height": high}, **settings)
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("body[data-ready=yes]", timeout=60_000)

    def _said(self, message: Any) -> None:
        # Software WebGL tells of its own slowness; that is no fault of the page.
        if message.type in ("error", "warning") and "GL Driver Message" not in message.text:
            self.troubles.append(f"{message.type}: {message.text}")

    def until(self, condition: str, seconds: float = 60) -> None:
        """Wait until a JavaScript expression holds."""
        self.page.wait_for_function(condition, timeout=1000 * seconds)

    def data(self, name: str) -> str:
        """What the page says of its state."""
        return str(self.page.evaluate(f"document.body.dataset.{name}"))

    def shot(self, name: str) -> None:
        """Keep a picture for people, where NEARER_SCREENSHOTS names a folder."""
        folder = os.environ.get("NEARER_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))

    def lasso(self, left: float, top: float, right: float, bottom: float) -> None:
        """Draw a box, in shares of the map."""
        box = self.page.query_selector(".stage").bounding_box()
        x = [box["x"] + box["width"] * one for one in (left, right)]
        y = [box["y"] + box["height"] * one for one in (top, bottom)]
        self.page.click("[data-mode=lasso]")
        mouse = self.page.mouse
        mouse.move(x[0], y[0])
        mouse.down()
        for end in ((x[1], y[0]), (x[1], y[1]), (x[0], y[1]), (x[0], y[0])):
            mouse.move(*end, steps=6)
        mouse.up()
        self.page.click("[data-mode=pan]")

    def close(self) -> None:
        """Close it; complaints and requests to elsewhere are failures."""
        self.context.close()
        assert not self.troubles, self.troubles
        elsewhere = [
            url for url in self.requests if not url.startswith(("http://127.0.0.1", "data:", "blob:", "file:"))
        ]
        assert not elsewhere, elsewhere

"""The two pages in a real browser: wide and narrow, light and dark; and the examples can be tried."""

from __future__ import annotations

import pytest

import browser

pytestmark = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is a browser")

# The contrast of every text with what is behind it, by the formula of WCAG.
CONTRAST = """() => {
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const light = color => { const [r, g, b] = numbers(color).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const behind = e => { for (; e; e = e.parentElement) { const color = getComputedStyle(e).backgroundColor;
    const parts = numbers(color); if (parts.length < 4 || parts[3] > 0) return color }
    return "rgb(255, 255, 255)" };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    found.push([(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.tagName, e.textContent.slice(0, 40)]) }
  return found.sort((a, b) => a[0] - b[0])[0] }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_are_readable_and_examples_can_be_tried(server, width: int, scheme: str) -> None:
    with browser.chromium() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for path in ("/docs", "/"):
            page.goto(server.address + path)
            page.wait_for_selector("h2")
            # The policy of the pages evaluates no text, so that waiting is for what can be selected.
            page.wait_for_selector("#contents li, #routes tr", state="attached")
            if path == "/docs":
                page.locator("summary", has_text="Try it").first.click()
                page.locator("button").first.click()
                page.wait_for_selector("[role=status]:text-matches('^200')")
                assert '"results"' in page.locator("details pre").first.text_content()
                assert page.locator("pre", has_text="curl").count() == page.locator("h2").count()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CONTRAST)[0] >= 4.5
        assert not wrong
        page.close()

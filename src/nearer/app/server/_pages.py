"""Two pages that ask nothing of the rest of the world: what the API takes, and how busy the server is."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

_ASSETS = resources.files("nearer.app.server") / "assets"


def page(name: str) -> str:
    """A page of this folder, with its style in it: it asks for nothing else.

    >>> page("status").startswith("<!doctype html>")
    True
    """
    style, html = ((_ASSETS / file).read_text(encoding="utf-8") for file in ("style.css", f"{name}.html"))
    return html.replace("STYLE", style)


def policy(html: str) -> dict[str, str]:
    """The header that keeps a page to itself: its own script and style, and requests to this server alone.

    >>> policy("<style>a{}</style><script>1</script>")["content-security-policy"][:18]
    "default-src 'none'"
    """

    def hashed(tag: str) -> str:
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in contents]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    rules = (
        f"default-src 'none'; connect-src 'self'; script-src {hashed('script')}; "
        f"style-src {hashed('style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": rules, "referrer-policy": "no-referrer"}

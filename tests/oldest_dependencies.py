"""Print a constraints file with the oldest versions that pyproject.toml allows: the lower bounds as exact pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def oldest() -> list[str]:
    """Every `name>=version` of the dependencies as `name==version`; requirements without a bound are left free."""
    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["plot"], *extras["search"], *extras["tables"], *extras["images"]]
    pins = [re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", line) for line in lines]
    return [f"{pin[1]}=={pin[2]}" for pin in pins if pin]


if __name__ == "__main__":
    print("\n".join(oldest()))

"""Search right halves of digits with left halves: one metric for both sides, and two maps.

python examples/two_views.py
"""

from __future__ import annotations

from nearer.recipes._catalog import recipe_named
from nearer.recipes._recipe import Request
from nearer.recipes._runner import run_recipe

rows = run_recipe(recipe_named("asymmetric"), Request(quick=True, only=["halves"])).record["rows"]
errors = {row["method"]: row["error"] for row in rows}
for method, error in errors.items():
    print(f"{method:15} {error:6.1%} of the votes are wrong")
two_maps = errors.pop("AsymmetricKNN")
assert two_maps < 0.5 * min(errors.values())

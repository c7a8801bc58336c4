"""How fast each kind of parameter learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from nearer._checks import check_number
from nearer.exceptions import ParameterError

__all__ = ["parameter_groups"]


def parameter_groups(
    modules: Mapping[str, nn.Module], rates: Mapping[str, float], *, weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """Groups for any torch optimiser, one learning rate for each named module: encoder, metric, proxies, ...

    A parameter that two modules share belongs to the first. Modules without parameters are left out; frozen
    parameters stay in, so that they can be thawed later. Weight decay is not put on vectors (biases, the scales of
    normalisation), which it would only bend.

    >>> groups = parameter_groups({"encoder": nn.Linear(3, 2), "metric": nn.Linear(2, 1)},
    ...                           {"encoder": 1e-4, "metric": 1e-2})
    >>> [(group["name"], group["lr"], len(group["params"])) for group in groups]
    [('encoder', 0.0001, 2), ('metric', 0.01, 2)]

    Args:
        modules: modules by name.
        rates: their learning rates by name.
        weight_decay: of matrices.
    """
    unknown = set(rates) ^ set(modules)
    if unknown:
        raise ParameterError(
            f"`rates` must name the same modules as `modules` ({', '.join(modules)}), and they differ in "
            f"{', '.join(sorted(unknown))}."
        )
    check_number(weight_decay, "weight_decay", minimum=0.0)
    seen: set[int] = set()
    groups: list[dict[str, Any]] = []
    for name, module in modules.items():
        rate = check_number(rates[name], f"rates[{name!r}]", minimum=0.0)
        fresh = [one for one in module.parameters() if id(one) not in seen]
        seen.update(map(id, fresh))
        decayed = [one for one in fresh if weight_decay and one.ndim > 1]
        plain = [one for one in fresh if not (weight_decay and one.ndim > 1)]
        groups += [
            {"name": name, "params": params, "lr": rate, "weight_decay": decay}
            for params, decay in ((decayed, weight_decay), (plain, 0.0))
            if params
        ]
    if not groups:
        raise ParameterError("`modules` must have at least one parameter to learn, got none.")
    return groups

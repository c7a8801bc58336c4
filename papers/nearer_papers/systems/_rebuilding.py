"""Renew what is computed from all training embeddings: class trees, tables of hard negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nearer.exceptions import ParameterError
from nearer.training._loop import Callback, Moment
from nearer_papers.systems._rank_range import HardnessController
from nearer_papers.systems._rebuilt import Rebuilt

__all__ = ["follow_loss", "rebuild"]


def rebuild(*parts: Rebuilt, embed: Callable[[], Tensor], labels: Any, every: int = 1) -> Callback:
    """A callback that updates `parts` by `embed()` (n, d) and `labels` (n,) before the first epoch and after each.

    `every` leaves out epochs. What a resumed run restored is not computed again. A part that no loss holds must be
    in the trained module for that: `step.module["mining"] = part`.

    >>> import torch
    >>> from nearer_papers.systems import ClassTree
    >>> tree = ClassTree()
    >>> callback = rebuild(tree, embed=lambda: torch.eye(4), labels=[0, 0, 1, 1])
    >>> callback(Moment("start", 0, 0, 10))
    >>> tree.ready
    True

    Args:
        embed: gives the embeddings of all training items.
        labels: their classes, (n,).
        every: epochs between two updates.
    """
    if not parts:
        raise ParameterError("`parts` must be one thing to update or more, got none.")
    if every < 1:
        raise ParameterError(f"`every` must be at least 1, got {every}.")

    def callback(moment: Moment) -> None:
        if moment.kind == "start":
            due = [part for part in parts if not part.ready]
        elif moment.kind == "epoch" and moment.epoch % every == 0:
            due = list(parts)
        else:
            return
        if due:
            embeddings = embed()
            for part in due:
                part.update(embeddings, labels)

    return callback


def follow_loss(controller: HardnessController) -> Callback:
    """A callback that shows every step's loss to the controller of a `RankRange`.

    >>> controller = HardnessController(target=0.1, momentum=0.0)
    >>> follow_loss(controller)(Moment("step", 0, 1, 10, {"loss": 0.05}))
    >>> int(controller.level)
    1

    Args:
        controller: the `HardnessController`.
    """

    def callback(moment: Moment) -> None:
        if moment.kind == "step":
            controller.observe(moment.values["loss"])

    return callback

"""Where a run that writes embeddings part by part keeps what it has, so that the next one goes on."""

from __future__ import annotations

from pathlib import Path

__all__ = ["stopped_before", "without_secret", "work_folder"]


def work_folder(target: str) -> Path:
    """Where an unfinished run keeps what it has."""
    if "://" in target:
        plain = "".join(letter if letter.isalnum() else "-" for letter in without_secret(target))
        return Path(f"{plain.strip('-')}.partial")
    return Path(f"{target.rstrip('/')}.partial")


def stopped_before(target: str) -> str:
    """What to say of a result whose run was stopped before its end; empty where there is none.

    >>> stopped_before("no-such-index")
    ''
    """
    if not (work_folder(target) / "progress.json").exists():
        return ""
    return f"{target} is unfinished: the run that fills it was stopped. Repeat that command, and it goes on."


def without_secret(target: str) -> str:
    """A URL without user and password: it is written to disk."""
    scheme, found, rest = target.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else target

"""A new metric without downtime: build an index beside the old one, and give it the old one's name in one step."""

from __future__ import annotations

import os
from pathlib import Path

from nearer._storage._disk import exchange, flush_folder
from nearer._storage._folder import _resolved
from nearer._storage._scratch import _release, scratch_of
from nearer.exceptions import ParameterError
from nearer.index._layout import read_manifest
from nearer.index._stored import _lock

__all__ = ["switch_index"]


def switch_index(where: str | os.PathLike[str], fresh: str | os.PathLike[str]) -> None:
    """Give the index `fresh` the name `where`, and the old one the name `fresh`.

    Args:
        where: the address that readers use: a folder, or postgresql://...?table=name.
        fresh: the index that was built beside it, of the same kind of address.

    Whoever has the old index open goes on with it; whoever opens `where` afterwards gets the new one, and nobody
    sees anything between them. Both must be closed for writing. Call it again to go back.

    >>> import tempfile
    >>> from nearer.index import open_index
    >>> place = tempfile.mkdtemp()
    >>> for name, rows in {"old": [[1.0]], "new": [[1.0], [2.0]]}.items():
    ...     with open_index(f"{place}/{name}", dimension=1) as index:
    ...         _ = index.add(rows)
    >>> switch_index(f"{place}/old", f"{place}/new")
    >>> len(open_index(f"{place}/old", read_only=True))
    2
    """
    remote = [str(one).partition("://")[0] for one in (where, fresh) if "://" in str(one)]
    if remote:
        if len(remote) == 1 or not all(one in ("postgresql", "postgres") for one in remote):
            raise ParameterError("`where` and `fresh` must both be folders or both tables of PostgreSQL.")
        from nearer.index._postgres import switch_tables

        switch_tables(str(where), str(fresh))
        return
    one, other = _resolved(where), _resolved(fresh)
    if one == other:
        raise ParameterError(f"`fresh` must be another folder than `where`, both are `{one}`.")
    held: list[tuple[int, Path]] = []
    try:
        for place in (one, other):
            read_manifest(place)
            held.append((_lock(place), place))
        if not exchange(one, other):
            _rename_both(one, other)
        flush_folder(one.parent)
        flush_folder(other.parent)
    finally:
        # The lock of a folder has moved with it.
        for lock, place in held:
            _release(lock, scratch_of((other if place == one else one) / "writer"))


def _rename_both(one: Path, other: Path) -> None:
    """Where two names cannot be exchanged in one step: a reader that comes between finds nothing for a moment."""
    aside = other.parent / f".{other.name}.switching"
    os.rename(other, aside)
    try:
        os.rename(one, other)
        os.rename(aside, one)
    except BaseException:
        if not one.exists() and other.exists():
            os.rename(other, one)
        os.rename(aside, other)
        raise

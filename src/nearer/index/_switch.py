"""A new metric without downtime: build an index beside the old one, and give it the old one's name in one step."""

from __future__ import annotations

import os
from pathlib import Path

from nearer._storage._disk import exchange, flush_folder
from nearer._storage._folder import resolved
from nearer.exceptions import LockedError, MissingDataError, ParameterError
from nearer.index._database import FILE, Database, has_database
from nearer.index._writer_lock import WriterLock, hold


def switch_index(where: str | os.PathLike[str], fresh: str | os.PathLike[str]) -> None:
    """Give the index `fresh` the name `where`, and the old one the name `fresh`.

    Args:
        where: the address that readers use: a folder, or postgresql://...?table=name.
        fresh: the index that was built beside it, of the same kind of address.

    Whoever opens `where` afterwards gets the new one, and nobody sees anything between them. Whoever has the old
    folder open goes on with it; folders must be closed for writing. Whoever has the old table of PostgreSQL open
    gets a `MissingDataError` from the next call, which changes nothing. Call it again to go back.

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
    remote = [str(first).partition("://")[0] for first in (where, fresh) if "://" in str(first)]
    if remote:
        if len(remote) == 1 or not all(first in ("postgresql", "postgres") for first in remote):
            raise ParameterError("`where` and `fresh` must both be folders or both tables of PostgreSQL.")
        from nearer.index._postgres import switch_tables

        switch_tables(str(where), str(fresh))
        return
    first, second = resolved(where), resolved(fresh)
    if first == second:
        raise ParameterError(f"`fresh` must be another folder than `where`, both are `{first}`.")
    held: list[WriterLock] = []
    try:
        for folder in (first, second):
            if not has_database(folder):
                raise MissingDataError(f"`{folder}` must be the folder of an index, there is none. Check the path.")
            held.append(hold(folder))
            # A log beside the file would be found under the other name by whoever opens them in this moment.
            Database.write(folder).close()
            if (folder / f"{FILE}-wal").exists():
                raise LockedError(f"`{folder}` is being read. Try again when it is quieter.")
        if not exchange(first, second):
            _rename_both(first, second)
        flush_folder(first.parent)
        flush_folder(second.parent)
    finally:
        for lock in held:
            lock.let_go()


def _rename_both(first: Path, second: Path) -> None:
    """Where two names cannot be exchanged in one step: a reader that comes between finds nothing for a moment."""
    aside = second.parent / f".{second.name}.switching"
    os.rename(second, aside)
    try:
        os.rename(first, second)
        os.rename(aside, first)
    except BaseException:
        if not first.exists() and second.exists():
            os.rename(second, first)
        os.rename(aside, second)
        raise

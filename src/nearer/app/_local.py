"""What every server of this package does alike: who means this machine, and what each answer forbids."""

from __future__ import annotations

NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
# Nothing that is answered is kept by a browser or a proxy, or taken for another kind than its own.
PRIVATE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def is_local(host: bytes) -> bool:
    """Whether a Host header, with or without its port, names this machine.

    A page of the web may give its own name this machine's address (DNS rebinding); the header still has the name.

    >>> is_local(b"localhost:8080"), is_local(b"[::1]"), is_local(b"evil.example")
    (True, True, False)
    """
    name = host if host.endswith(b"]") else host.rsplit(b":", 1)[0]
    return name.lower() in NAMES

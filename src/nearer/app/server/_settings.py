"""What a server is told when it starts: where it listens, who may ask, and how much."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nearer._checks import check_choice, check_int, check_number
from nearer.exceptions import MissingDataError, ParameterError

Scope = Literal["read", "write"]
SHORTEST = 16
VARIABLE = "NEARER_TOKENS"
FORM = "one per line: read or write, a space, and a token of at least 16 characters"


class Tokens:
    """Secrets and their scopes; "write" may read too. Only hashes are kept.

    >>> tokens = Tokens({"correct horse battery": "read"})
    >>> tokens.scope("correct horse battery"), tokens.scope("wrong horse battery")
    ('read', None)
    """

    def __init__(self, secrets: dict[str, Scope]) -> None:
        if not secrets:
            raise ParameterError(f"The tokens must be {FORM}; got none.")
        self._known = [(_digest(secret), scope) for secret, scope in secrets.items()]

    @classmethod
    def parse(cls, text: str, *, source: str) -> Tokens:
        """Tokens as they are written in a file; lines that begin with # are remarks.

        >>> len(Tokens.parse("# ours\\nread 0123456789abcdef\\n", source="x")._known)
        1
        """
        secrets: dict[str, Scope] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            # The line itself is never shown: it may hold a secret.
            if len(words) != 2 or words[0] not in ("read", "write"):
                raise ParameterError(f"The tokens of {source} must be {FORM}; line {number} is not.")
            if len(words[1]) < SHORTEST or not words[1].isascii():
                raise ParameterError(
                    f"A token must have at least {SHORTEST} characters of ASCII, line {number} of {source} has "
                    f"not. Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
                )
            secrets[words[1]] = "write" if words[0] == "write" else "read"
        return cls(secrets)

    @classmethod
    def read(cls, path: Path | None) -> Tokens | None:
        """Tokens from a file, else from the variable NEARER_TOKENS, else none."""
        if path is not None:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise MissingDataError(f"`tokens` must be a text file, and `{path}` cannot be read.") from error
            return cls.parse(text, source=path.name)
        given = os.environ.get(VARIABLE)
        return None if not given else cls.parse(given.replace(",", "\n"), source=VARIABLE)

    def scope(self, secret: str) -> Scope | None:
        """What a secret allows, None for an unknown one; it takes as long for any of them."""
        given, allowed = _digest(secret), None
        for known, scope in self._known:
            # No early exit: the time must not say which token was nearly right.
            if hmac.compare_digest(known, given):
                allowed = scope
        return allowed


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


@dataclass(frozen=True)
class Settings:
    """Where a server listens and what it accepts.

    Args:
        host: the address to listen on; anything but this machine itself needs tokens.
        port: 0 takes a free one.
        tokens: who may read and write; None lets every process of this machine do both.
        tls_certificate: a PEM file; with it the server speaks HTTPS.
        tls_key: the key of the certificate.
        max_body: bytes that a request may have.
        max_rows: items or vectors in one request.
        max_k: neighbors that a search may ask for.
        queue: rows that may wait; a request beyond them is answered with 429 and Retry-After.
        batch: rows that are embedded and searched together.
        threads: of a search or an embedding. Batches are small: on a busy machine a second thread costs more in
            waiting for each other than it saves, so one is the default; a large exact index may want more.
        timeout: seconds until a request is given up, and that a client has to send it.
        connections: clients at a time; more are turned away.
        read_only: changes are refused; an index in a folder is opened beside the process that writes it.
        workers: processes that share the address; more than one for an engine, or with `read_only`.
        log: "all" requests, only "errors", or "none"; one JSON line each on standard error, without payloads.

    >>> Settings(port=0).loopback
    True
    """

    host: str = "127.0.0.1"
    port: int = 8080
    tokens: Tokens | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    max_body: int = 16 << 20
    max_rows: int = 1024
    max_k: int = 1000
    queue: int = 8192
    batch: int = 256
    threads: int = 1
    timeout: float = 30.0
    connections: int = 1024
    read_only: bool = False
    workers: int = 1
    log: str = "all"

    def __post_init__(self) -> None:
        check_int(self.port, "port", minimum=0, maximum=65535)
        for name in ("max_body", "max_rows", "max_k", "queue", "batch", "threads", "connections", "workers"):
            check_int(getattr(self, name), name)
        check_number(self.timeout, "timeout", above=0.0)
        check_choice(self.log, "log", ["all", "errors", "none"])
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ParameterError("`tls_certificate` and `tls_key` must be given together, got one of them.")
        for name in ("tls_certificate", "tls_key"):
            file = getattr(self, name)
            if file is not None and not Path(file).is_file():
                raise MissingDataError(f"`{name}` must be a PEM file, and `{file}` is no file.")
        if not self.loopback and self.tokens is None:
            raise ParameterError(
                f"`tokens` must be given to listen on {self.host}, which other machines can reach. Write a file "
                f"with lines such as 'write <token>', and pass it (`tokens=`); or listen on 127.0.0.1."
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

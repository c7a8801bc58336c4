"""What a server is told when it starts: where it listens, who may ask, and how much."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from nearer._checks import check_choice, check_int, check_number
from nearer.app.server._tokens import Tokens
from nearer.exceptions import MissingDataError, ParameterError


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
    log: str = "all"

    def __post_init__(self) -> None:
        check_int(self.port, "port", minimum=0, maximum=65535)
        for name in ("max_body", "max_rows", "max_k", "queue", "batch", "threads", "connections"):
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
                f"with lines such as 'write <token>', and pass it with --tokens; or listen on 127.0.0.1."
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

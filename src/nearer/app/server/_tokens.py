"""Bearer tokens: a secret and what it allows, from a file or from the environment."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import Literal

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
                raise MissingDataError(f"`--tokens` must be a text file, and `{path}` cannot be read.") from error
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

"""`nearer serve`: a model and an index behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearer.exceptions import NearerError


def run_serve(
    model: str,
    index: str | None,
    *,
    create: bool,
    tokens: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve until SIGTERM or Ctrl-C; the other options are `Settings` of the server."""
    try:
        from nearer.app.server import Settings, serve
        from nearer.app.server._settings import Tokens
    except ImportError as error:
        raise NearerError(
            f"Serving needs {error.name}, which is not installed. Run: pip install 'nearer[serve]'"
        ) from error
    if index is None:
        from nearer.app.cli._use import open_existing
        from nearer.index._open import model_of
        from nearer.models._saved import is_model

        index = model
        if "://" not in index and is_model(index):
            raise NearerError(f"`{index}` is a model, not an index. Name the index too: nearer serve {index} INDEX")
        with open_existing(index) as opened:
            model = str(model_of(opened, index))
    settings = Settings(tokens=Tokens.read(tokens), **options)
    serve(model, index, settings=settings, create=create, tokens_file=tokens)

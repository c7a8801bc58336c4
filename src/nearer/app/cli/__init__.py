"""The command line, `nearer`: thin calls into the library; `--help` never loads PyTorch."""

from nearer.app.cli._application import app, main

__all__ = ["app", "main"]

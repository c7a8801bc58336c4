"""The command line, `nearer`: thin calls into the library; `--help` never loads PyTorch."""

from nearer.cli.application import app, main

__all__ = ["app", "main"]

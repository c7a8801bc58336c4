"""Experiments of our own: what the library promises beyond the five papers, measured."""

__all__: list[str] = []

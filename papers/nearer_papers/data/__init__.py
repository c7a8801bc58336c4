"""Loaders of published data sets, from their prepared or original files."""

__all__: list[str] = []

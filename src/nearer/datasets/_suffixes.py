"""What the names of files end in that nearer reads: one list for each kind, in lower case."""

from __future__ import annotations

__all__ = ["IMAGES", "PARQUET", "TABLES", "TEXT_TABLES"]

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
TEXT_TABLES = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")
TABLES = (*TEXT_TABLES, *PARQUET)

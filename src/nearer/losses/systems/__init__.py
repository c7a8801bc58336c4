"""Losses that come with parts of their own: heads, generators, cascades, two streams."""

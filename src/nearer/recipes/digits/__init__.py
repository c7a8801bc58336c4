"""The demo: handwritten digits from ten labels per class."""

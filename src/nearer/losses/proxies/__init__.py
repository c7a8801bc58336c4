"""Losses against learned class vectors: softmax with margins, proxies, several centers per class."""

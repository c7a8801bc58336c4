"""Losses on several layers of a network at once: JRS, its kernels, and how layers are tapped."""

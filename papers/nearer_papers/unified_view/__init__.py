"""The experiments of the unified view: unseen classes, RAW, VTHM and what they are compared with."""

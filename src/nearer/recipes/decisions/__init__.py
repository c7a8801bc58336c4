"""Same or not: whether thresholds keep their level on classes that were never seen."""

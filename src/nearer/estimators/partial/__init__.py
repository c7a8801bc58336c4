"""Linear metrics from a few labels among many unlabelled rows."""

"""The experiments with a few labels among many unlabelled images."""

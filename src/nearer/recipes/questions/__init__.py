"""What to ask next: how many answers a strategy needs for what random answers reach."""

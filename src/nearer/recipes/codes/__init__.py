"""Small codes: what nested widths and bits lose."""

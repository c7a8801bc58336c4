"""Not yet filled."""

__all__: list[str] = []

def generate() -> None:
    """Do."""

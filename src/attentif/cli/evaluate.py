def evaluate() -> None:
    """Do."""

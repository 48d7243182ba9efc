def maps() -> None:
    """Do."""

"""Pictures: a label for one, questions about one, one asked for in words."""

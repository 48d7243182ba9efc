"""What a user types: one function a command; its docstring is its help."""

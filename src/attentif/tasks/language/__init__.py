"""The next token, or the token at a place that asks for it; and models that count."""

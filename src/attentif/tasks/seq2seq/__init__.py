"""A text from another: translation, summaries, several tasks in one model."""

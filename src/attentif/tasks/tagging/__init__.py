"""Something found in a text: a tag for each word, the answer to a question."""

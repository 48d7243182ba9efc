"""Vectors of words and sentences, the senses of a word, and which word translates which."""

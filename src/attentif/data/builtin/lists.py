"""Lists of words written as plain text."""


def words(text: str) -> list[str]:
    """Words between spaces and line ends."""
    return text.split()


def phrases(text: str) -> list[str]:
    """Phrases between bars; a line may end anywhere between two words."""
    return [" ".join(phrase.split()) for phrase in text.split("|")]

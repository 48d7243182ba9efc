"""Lists of words as one reads them, without a quotation mark around each."""


def words(text: str) -> list[str]:
    """Words between spaces and line ends."""
    return text.split()


def phrases(text: str) -> list[str]:
    """Phrases between bars; a line may end anywhere between two words."""
    return [" ".join(phrase.split()) for phrase in text.split("|")]

"""The reviews: distinct, balanced, in correct French, and out of reach for a bag of words."""

import re
from collections import Counter
from random import Random

import pytest

from attentif.data.builtin import reviews
from attentif.data.builtin.grammar import Grammar, finish
from attentif.data.builtin.reviews_grammar import RULES
from attentif.data.builtin.reviews_lexicon import LEXICON
from attentif.data.builtin.words import Adjective, Noun, Verb, adjectives, verbs

Splits = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return reviews.load(0)


@pytest.fixture(scope="module")
def texts(splits: Splits) -> list[str]:
    return [text for columns in splits.values() for text in columns["text"]]


def test_every_text_is_distinct_within_and_between_splits(splits: Splits, texts: list[str]) -> None:
    assert {split: len(columns["text"]) for split, columns in splits.items()} == {"train": 20_000, "valid": 2_000, "test": 2_000}
    assert len(set(texts)) == 24_000


def test_both_labels_are_as_frequent_in_every_split(splits: Splits) -> None:
    for columns in splits.values():
        counts = Counter(columns["label"])
        assert counts["positif"] == counts["négatif"] == len(columns["label"]) / 2


def test_odd_sizes_differ_by_one_review() -> None:
    for columns in reviews.load(0, train=31, valid=7, test=9).values():
        counts = Counter(columns["label"])
        assert abs(counts["positif"] - counts["négatif"]) == 1


def test_the_seed_decides_everything() -> None:
    small = {"train": 200, "valid": 20, "test": 40}
    assert reviews.load(7, **small) == reviews.load(7, **small)
    assert not set(reviews.load(7, **small)["train"]["text"]) <= set(reviews.load(8, **small)["train"]["text"])


def test_reviews_are_one_to_seven_sentences_of_varied_length(texts: list[str]) -> None:
    sentences = Counter(len(re.findall(r"[.!?](?: |$)", text)) for text in texts)
    assert min(sentences) >= 1
    assert max(sentences) <= 7
    assert all(sentences[count] > len(texts) / 50 for count in (1, 2, 3, 4))
    words = [len(text.split()) for text in texts]
    assert min(words) >= 2
    assert max(words) <= 80
    assert 15 < sum(words) / len(words) < 35


@pytest.mark.parametrize(
    "fault",
    [
        r"\b(de|à) (le|les) (?!voir|trouver)",  # du, des, au, aux (le, les before a verb are pronouns)
        r"\b([dljmnst]|qu)' ",
        r"(?<!-)\b(le|la|de|que|ne|je|me|se|te|jusque|puisque) (?=[aeiouyàâéèêîôœ])(?!onze|oui)",
        r"\b([ldmnsjt]|qu)'(?![aeiouyhàâéèêîïôœAEIOUYHÀÂÉÈÊÎÏÔŒ])",
        r"\bce [aeiouéèêîôœ]",
        r"\b(un|le|du|au) (?=(intrigue|histoire|musique|fin|photographie|merveille|comédie|purge)\b)",
        r"\b(une|la) (?=(scénario|montage|film|drame|navet|chef-d'œuvre|bijou|désastre)\b)",
        r"\bdes (?=un|une)",
        r"  |^ | $| [,.]|\s[,.]",
        r"[^ ][;:!?»]|«[^ ]",  # French spacing, with the ordinary space people type
        r"[{}\[\]<>|()!]{2}|[{}\[\]<>|()]",
        r"(^|[.!?] )[a-zàâéèêîôœ]",
        r"\bon ([a-zéèêîôœ']+ )?ai\b|\bje [a-z]+ent\b",
    ],
)
def test_the_french_has_no_such_fault(fault: str, texts: list[str]) -> None:
    wrong = [text for text in texts if re.search(fault, text)]
    assert wrong[:3] == []


def test_every_review_ends_as_a_sentence(texts: list[str]) -> None:
    assert {text[-1] for text in texts} == set(".!?")


def test_adjectives_agree_in_gender_and_number() -> None:
    table = {word.text: word.forms for words in LEXICON["adj"] for word in words if isinstance(word, Adjective)}
    assert table["réussi"] == ("réussi", "réussie", "réussis", "réussies")
    assert table["ennuyeux"] == ("ennuyeux", "ennuyeuse", "ennuyeux", "ennuyeuses")
    assert table["poussif"] == ("poussif", "poussive", "poussifs", "poussives")
    assert table["original"] == ("original", "originale", "originaux", "originales")
    assert table["banal"] == ("banal", "banale", "banals", "banales")
    assert table["confus"] == ("confus", "confuse", "confus", "confuses")
    assert table["exceptionnel"] == ("exceptionnel", "exceptionnelle", "exceptionnels", "exceptionnelles")
    assert table["médiocre"] == ("médiocre", "médiocre", "médiocres", "médiocres")


def test_two_nouns_together_are_masculine_unless_both_are_feminine() -> None:
    fin, musique, acteurs = Noun("fin", 1, "r"), Noun("musique", 1, "s"), Noun("acteurs", 2, "p")
    assert fin.join(musique).agreement == 3
    assert fin.join(acteurs).agreement == 2


def test_reflexive_verbs_turn_to_the_first_person() -> None:
    (verb,) = verbs("s'ennuie, s'ennuyer de sa vie, me suis, ennuyé/ennuyée, de sa vie")
    assert (verb.mine, verb.my_rest, verb.participle) == ("m'ennuyer de ma vie", "de ma vie", ("ennuyé", "ennuyée"))


@pytest.mark.parametrize(
    ("draft", "text"),
    [
        ("je ai vu le acteur principal.", "J'ai vu l'acteur principal."),
        ("la histoire ne est pas finie ? Non : évitez-le à tout prix.", "L'histoire n'est pas finie ? Non : évitez-le à tout prix."),
        ("il ne y a que  elle . le héros est là", "Il n'y a qu'elle. Le héros est là"),
    ],
)
def test_elision_capitals_and_spaces_are_put_right_at_the_end(draft: str, text: str) -> None:
    assert finish(draft) == text


def tiny_grammar() -> Grammar:
    rules = {
        "text": "{clause!}, {le:part} et {le:part&} [est|sont] {adj} <ravi|ravie>",
        "clause": "certes {le:part} ne [est|sont] pas {adj!}",
    }
    part = [Noun("fin", 1, "r")]
    words = {"part": (part, part), "adj": (adjectives("beau/belle r"), adjectives("laid r"))}
    return Grammar(rules, words)


def test_a_grammar_turns_polarity_agrees_and_reports_what_it_reversed() -> None:
    text, reversals = tiny_grammar().write("text", 0, lambda: 0.9)
    assert text == "certes la fin ne est pas belle, la fin et la fin sont belles ravi"
    assert reversals == [("certes {le:part} ne [est|sont] pas {adj!}", "beau")]


@pytest.mark.parametrize("template", ["(a|b", "a)", "a|b", "{unclosed"])
def test_a_template_that_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"unbalanced|not a rule"):
        Grammar({"text": f"{template}\n"}, {})


def test_every_symbol_and_every_word_is_used() -> None:
    slots = {slot for lines in RULES.values() for slot in re.findall(r"\{([^}]*)\}", lines)}
    used = {re.sub(r"[!?&]|\..*", "", slot.split(":")[-1]) for slot in slots} - {""}
    assert used | {"review"} == set(RULES) | set(LEXICON)
    assert not set(RULES) & set(LEXICON)


def test_training_never_has_a_held_out_pair_and_one_test_review_in_four_does() -> None:
    small = reviews.load(0, train=400, valid=50, test=80)
    grammar, rng, unfamiliar = reviews._grammar(), Random("reviews 0"), {}
    for row in range(4_000):  # the same drafts again, this time keeping what each of them reversed
        draft, pairs = grammar.write("review", 1 - row % 2, rng.random)
        unfamiliar.setdefault(finish(draft), any(reviews._is_held_out(0, *pair) for pair in pairs))
    assert 0.01 < sum(unfamiliar.values()) / len(unfamiliar) < 0.1
    found = {split: [unfamiliar[text] for text in columns["text"]] for split, columns in small.items()}
    assert not any(found["train"] + found["valid"])
    assert sum(found["test"]) == 20


def test_evaluative_words_serve_both_labels(splits: Splits) -> None:
    """No word gives its label away: in one review of five or more it has the label that it does not have by itself."""
    lexemes = {}  # form -> word
    for word in (word for symbol in ("adj", "verdict", "verb") for side in LEXICON[symbol] for word in side):
        assert not isinstance(word, str)
        forms = word.forms if isinstance(word, Adjective) else (word.infinitive,) if isinstance(word, Verb) else (word.text,)
        lexemes |= dict.fromkeys(forms, word.text)
    longest_first = sorted(lexemes, key=len, reverse=True)
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
    counts: dict[str, Counter[str]] = {text: Counter() for text in lexemes.values()}
    for text, label in zip(splits["train"]["text"], splits["train"]["label"], strict=True):
        for lexeme in {lexemes[form] for form in pattern.findall(text)}:
            counts[lexeme][label] += 1
    for lexeme, found in counts.items():
        assert min(found["positif"], found["négatif"]) / found.total() > 0.2, (lexeme, found)


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_a_bag_of_words_stays_below_92_percent(ngrams: tuple[int, int], splits: Splits) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectors = TfidfVectorizer(ngram_range=ngrams, token_pattern=r"(?u)\w+|[^\w\s]")
    train = vectors.fit_transform(splits["train"]["text"])
    model = LogisticRegression(C=10, max_iter=300).fit(train, splits["train"]["label"])
    accuracy = model.score(vectors.transform(splits["test"]["text"]), splits["test"]["label"])
    assert 0.6 < accuracy <= 0.92

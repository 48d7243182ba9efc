"""ELIZA: what is recognised, what is said, what is remembered."""

import re
import unicodedata
from pathlib import Path

import pytest

from attentif.errors import ConfigError, UsageError
from attentif.text.dialogue import LANGUAGES, Eliza, load_script
from attentif.text.dialogue.eliza import clauses, join_words, match

SCRIPT = """\
hello = "Bonjour."
goodbye = "Adieu."
quit = ["au revoir"]
go_on = ["Continuez.", "Et puis ?"]
[same]
maman = "mère"
[reflect]
je = "vous"
mon = "votre"
"j'" = "vous"
[groups]
famille = ["mère", "père"]
[[keywords]]
words = ["mère", "père"]
rank = 2
rules = [
  { pattern = "* @famille *", memory = true, answers = ["Votre {2}, disiez-vous."] },
  { pattern = "* @famille *", answers = ["Parlez-moi de votre {2}.", "{3}, vraiment ?"] },
]
[[keywords]]
words = ["aime"]
rules = [{ pattern = "* j' aime *", answers = ["Pourquoi aimez-vous {2} ?"] }]
[[keywords]]
words = ["adore"]
rules = [{ pattern = "*", answers = ["=aime"] }]
"""


def eliza(tmp_path: Path, script: str = SCRIPT) -> Eliza:
    file = tmp_path / "script.toml"
    file.write_text(script)
    return Eliza(load_script(file))


def test_patterns_give_what_their_parts_stand_for() -> None:
    groups = {"famille": ["mère", "père"]}
    assert match(["*", "je", "*"], ["oui", "je", "dors"], groups) == [["oui"], ["dors"]]
    assert match(["je", "*"], ["oui", "je", "dors"], groups) is None
    assert match(["*", "@famille", "*"], ["ma", "mère", "part"], groups) == [["ma"], ["mère"], ["part"]]
    assert match(["*"], [], groups) == [[]]
    assert clauses(["oui", ",", "non", "!"]) == [["oui"], ["non"]]


def test_what_is_said_comes_back_from_the_other_side(tmp_path: Path) -> None:
    assert eliza(tmp_path).answer("Oui, j'aime mon chat !") == "Pourquoi aimez-vous votre chat ?"


def test_the_highest_rank_answers_and_templates_take_turns(tmp_path: Path) -> None:
    talk = eliza(tmp_path)
    assert talk.answer("J’aime maman qui chante") == "Parlez-moi de votre mère."
    assert talk.answer("mon père dort") == "Dort, vraiment ?"
    assert talk.answer("mon père dort") == "Parlez-moi de votre père."


def test_what_was_put_away_is_said_when_there_is_nothing_to_say(tmp_path: Path) -> None:
    talk = eliza(tmp_path)
    talk.answer("mon père dort")
    assert talk.answer("il pleut") == "Votre père, disiez-vous."
    assert [talk.answer("il pleut") for _ in range(3)] == ["Continuez.", "Et puis ?", "Continuez."]


def test_a_template_may_answer_as_to_another_word_and_a_pattern_that_fails_passes_on(tmp_path: Path) -> None:
    talk = eliza(tmp_path)
    assert talk.answer("on adore dire j'aime les chats") == "Pourquoi aimez-vous les chats ?"
    assert talk.answer("on adore") == "Continuez."  # the other word's pattern does not match


def test_a_template_is_passed_over_where_a_part_stands_for_nothing(tmp_path: Path) -> None:
    talk = eliza(tmp_path)
    assert [talk.answer("mon père") for _ in range(2)] == ["Parlez-moi de votre père."] * 2
    assert talk.answer("j'aime") == "Votre père, disiez-vous."  # none of that rule's can be filled: as if it had no keyword


@pytest.mark.parametrize(
    ("lang", "text", "answer"),
    [
        ("fr", "J'ai rêvé d'un chien", "Que vous inspire ce rêve d'un chien ?"),
        ("fr", "J’aimerais aller à la mer", "Qu'est-ce qui vous empêche d'aller à la mer ?"),
        ("fr", "Je rêve de haine", "Que vous inspire ce rêve de haine ?"),
        ("fr", "SUIS-JE MALADE ?", "Pensez-vous être malade ?"),
        ("fr", "Pouvez-vous m'aider ?", "Croyez-vous que je peux vous aider ?"),
        ("fr", "J'ai un rendez-vous.", "Dites-m'en davantage."),  # nobody is spoken to
        ("fr", unicodedata.normalize("NFD", "Ma mère dort"), "Parlez-moi de votre famille."),
        ("fr", "Mes amis n'ont rien dit", "Vos amis n'ont rien dit, dites-vous ?"),
        ("en", "My friends aren't nice", "Your friends aren't nice, you say?"),
        ("en", "My dog’s name says it's old", "Your dog's name says it's old, you say?"),
        ("en", "My friends say they're fine", "Your friends say they are fine, you say?"),
        ("en", "I dreamt of you", "What does a dream of me tell you?"),
    ],
)
def test_apostrophes_hyphens_and_accents_are_read_and_written_as_people_do(lang: str, text: str, answer: str) -> None:
    assert Eliza(load_script(lang)).answer(text) == answer


def test_leaving_ends_the_conversation(tmp_path: Path) -> None:
    talk = eliza(tmp_path)
    assert talk.answer("Au revoir !") == "Adieu."
    assert talk.ended


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("* @famille *", "* @amis *", "no group 'amis'"),
        ("{3}, vraiment", "{4}, vraiment", "has 3 parts"),
        ('"=aime"', '"=haine"', "no keyword is 'haine'"),
        ("rank = 2", "rang = 2", "unknown key; did you mean 'rank'"),
    ],
)
def test_a_script_that_contradicts_itself_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        eliza(tmp_path, SCRIPT.replace(old, new))


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(UsageError, match="fr and en, not 'de'"):
        load_script("de")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_rule_of_our_scripts_can_answer(lang: str) -> None:
    """Each pattern matches some clause with its keyword (nothing above it takes all), and its templates can be filled."""
    script = load_script(lang)
    for keyword in script.keywords:
        for rule in keyword.rules:
            parts = rule.pattern.split()
            words = [word for part in parts for word in ([] if part == "*" else [script.groups[part[1:]][0] if part[0] == "@" else part])]
            typed = join_words(words if set(words) & set(keyword.words) else [*words, keyword.words[0]])
            for text in (typed, re.sub(r" (je|tu|vous)\b", r"-\1", typed)):  # suis-je
                clause = Eliza(script)._read(text)
                assert set(clause) & set(keyword.words), rule.pattern
                found = match(parts, clause, script.groups, script.elided)
                assert found is not None, rule.pattern
            said = [Eliza(script)._fill(answer, found) for answer in rule.answers if not answer.startswith("=")]
            assert all(said)
            assert not any("{" in answer for answer in said)
    assert set(script.keyword_of) & set(script.same) == set()  # a word that is read as another is never met


def test_the_dialogue_of_the_course_comes_out_naturally() -> None:
    """The five lines of the transcript: each is understood as it is there, in this script's own words."""
    said = [
        ("Men are all alike.", r"way|likeness|connection"),
        ("They're always bugging us about something or other.", r"example"),
        ("Well, my boyfriend made me come here.", r"that your boyfriend made you come here\?$"),
        ("He says I'm depressed much of the time.", r"sorry to hear that you are depressed"),
        ("It's true, I am unhappy.", r"unhappy\?$"),
    ]
    eliza = Eliza(load_script("en"))
    for line, expected in said:
        assert re.search(expected, eliza.answer(line)), line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("I remember my first school", r"your first school"),
        ("If I leave him, he cries", r"you leave him"),
        ("I was happy then", r"you really happy|you were happy|you happy"),
        ("You are like my father in some ways.", r"way|likeness|connection"),
        ("Why can't I sleep?", r"you should be able to sleep"),
        ("What is your name?", r"[Nn]ames"),
    ],
)
def test_the_english_script_has_the_range_of_the_first_one(line: str, expected: str) -> None:
    assert re.search(expected, Eliza(load_script("en")).answer(line))

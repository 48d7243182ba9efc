"""Conversations come out as transformers' `apply_chat_template` writes them."""

from pathlib import Path
from typing import Any

import pytest
import transformers
from chat_templates import CHATML, TALKS, TEMPLATES
from tokenizers import Tokenizer as Rust
from tokenizers import models, pre_tokenizers

from attentif.decode.turns import Turns
from attentif.text import Tokenizer
from attentif.text.chat_template import ChatTemplate

pytestmark = pytest.mark.parity
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
CONTROL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"]
TOOL = {"type": "function", "function": {"name": "météo", "parameters": {"ville": ["Paris", "Lyon"], "n": 1.5, "ok": True}}}


def characters() -> Rust:
    """A tokenizer of bytes with the control tokens of all the templates."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    rust = Rust(models.BPE(vocab={token: number for number, token in enumerate([*CONTROL, *alphabet])}, merges=[]))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.add_special_tokens(CONTROL)
    return rust


@pytest.fixture(scope="module")
def theirs() -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=characters(), **SPECIAL)


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_conversation_is_written_as_transformers_writes_it(name: str, talk: str, answer: bool, theirs: Any, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATES[name], encoding="utf-8")
    ours = ChatTemplate.from_folder(tmp_path)
    assert ours is not None
    options = {"tools": [TOOL]} if name == "tools" else {}
    expected = theirs.apply_chat_template(
        TALKS[talk], chat_template=TEMPLATES[name], tokenize=False, add_generation_prompt=answer, **options
    )
    assert ours.render(TALKS[talk], SPECIAL, answer=answer, **options) == expected


@pytest.mark.parametrize("name", ["chatml", "gemma", "llama"])
def test_the_tokens_of_a_dialogue_are_those_of_transformers(name: str, theirs: Any) -> None:
    turns = Turns(ChatTemplate(TEMPLATES[name]), Tokenizer(characters()), system=TALKS["system"][0]["content"])
    for message in TALKS["system"][1:]:
        if message["role"] == "user":
            turns.hear(message["content"])
        else:
            turns.say([], message["content"])
    expected = theirs.apply_chat_template(TALKS["system"], chat_template=TEMPLATES[name], add_generation_prompt=True, return_dict=False)
    assert turns.prompt() == expected


def test_templates_that_transformers_saves_are_found(theirs: Any, tmp_path: Path) -> None:
    theirs.chat_template = {"default": CHATML, "short": "{{ messages[0].content }}"}
    theirs.save_pretrained(tmp_path)
    found = [ChatTemplate.from_folder(tmp_path, name) for name in theirs.chat_template]
    assert [own and own.source for own in found] == list(theirs.chat_template.values())

"""A conversation with a model that came with a chat template, as a user types it."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer as Rust
from tokenizers import decoders, models, pre_tokenizers

from attentif.cli.main import run as typed
from attentif.hub.tokenizer_files import write_tokenizer_files
from attentif.text import Tokenizer

pytestmark = pytest.mark.system
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LLaMA of transformers that reads bytes and knows nothing, with a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    rust = Rust(models.BPE(vocab={token: number for number, token in enumerate([*CONTROL, *alphabet])}, merges=[]))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    rust.add_special_tokens(CONTROL)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 256}
    torch.manual_seed(0)
    ids = {"vocab_size": 259, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **ids)).save_pretrained(folder)
    write_tokenizer_files(folder, Tokenizer(rust), family="llama", max_len=256, chat_template=TEMPLATE)
    return folder


@pytest.fixture
def say(model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.chdir(model.parent)

    def said(words: str, *command: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(words))
        capfd.readouterr()
        return typed(list(command)), *capfd.readouterr()

    return said


def test_a_model_with_a_chat_template_answers_in_its_form(say: Say, model: Path) -> None:
    theirs, tokenizer = transformers.AutoModelForCausalLM.from_pretrained(model), transformers.AutoTokenizer.from_pretrained(model)
    asked = [{"role": "system", "content": "Tu es poli."}, {"role": "user", "content": "Ça va ?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    written = theirs.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=[0, 2])[0, ids.shape[1] :]
    expected = tokenizer.decode(written, skip_special_tokens=True)
    options = ("--system", "Tu es poli.", "--max-tokens", "12", "--temperature", "0", "--threads", "1")
    code, out, err = say("Ça va ?\n/quit\n", "chat", "model", *options)
    assert (code, out) == (0, expected + "\n")
    assert "model answers; /quit leaves" in err
    assert say("", "import", "model", "run")[0] == 0
    assert (model.parent / "run" / "chat_template.jinja").read_text() == TEMPLATE
    assert say("Ça va ?\n", "chat", "run", *options)[:2] == (0, expected + "\n")


@pytest.mark.parametrize(
    ("template", "words", "command", "said", "code"),
    [
        ("{{ messages[0].__class__ }}", "oui\n", (), "the chat template asks for what it may not have: '__class__' of a dict", 1),
        ("{{ raise_exception('no system') }}", "oui\n", ("--system", "x"), "refuses this conversation: no system", 2),
        (None, "oui\n", ("--system", "x"), "--system: this run has no chat template, and so no place for it", 2),
        (TEMPLATE, "x" * 5000 + "\n", (), "this message takes 5,0", 2),
    ],
)
def test_what_a_template_cannot_do_is_one_line(
    template: str | None, words: str, command: tuple[str, ...], said: str, code: int, say: Say, model: Path
) -> None:
    file = model / "chat_template.jinja"
    file.unlink(missing_ok=True)
    if template is not None:
        file.write_text(template)
    try:
        found, out, err = say(words, "chat", "model", "--max-tokens", "5", "--threads", "1", *command)
    finally:
        file.write_text(TEMPLATE)
    assert (found, out) == (code, "")
    assert said in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("error: ")


def test_a_system_message_is_not_for_eliza(say: Say) -> None:
    assert say("", "chat", "eliza", "--system", "x")[0] == 2

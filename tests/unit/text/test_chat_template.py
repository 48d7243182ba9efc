"""Chat templates are programs of other people's: what they may do is little, and what they may use is bounded."""

import gc
import json
import time
from pathlib import Path

import pytest

from attentif.errors import AttentifError, RunError, UsageError
from attentif.text import chat_template
from attentif.text.chat_template import SOURCE, WAIT, ChatTemplate

ASKED = [{"role": "user", "content": "é"}]

OUT_OF_BOUNDS = {
    "a class": "{{ ''.__class__ }}",
    "all classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "by a filter": "{{ messages | attr('__class__') }}",
    "by map": "{{ [messages] | map(attribute='__class__') | list }}",
    "by format": "{{ '{0.__class__}'.format(messages) }}",
    "globals of a function": "{{ lipsum.__globals__ }}",
    "globals of a class": "{{ cycler.__init__.__globals__.os.system('true') }}",
    "a namespace": "{% set ns = namespace(__init__=1) %}",
    "a change of what it was given": "{{ messages.append(1) }}",
}
ENDLESS = {
    "a loop": "{% for i in range(10**9) %}x{% endfor %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a string": "{{ 'x' * 10**9 }}",
    "a number": "{{ 10 ** (10 ** 10) }}",
    "doubling": "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "a width": "{{ '%1000000000d' % 1 }}",
    "a centre": "{{ 'x' | center(10**10) }}",
    "itself": "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "lists of lists": "{% set a = ['lol'] * 99 %}{% set b = [a] * 99 %}{% set c = [b] * 99 %}{% set d = [c] * 99 %}{{ [d] * 99 }}",
    "much text": "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
}


@pytest.mark.parametrize("template", OUT_OF_BOUNDS.values(), ids=OUT_OF_BOUNDS)
def test_what_is_not_its_own_is_refused(template: str) -> None:
    with pytest.raises(RunError, match="may not"):
        ChatTemplate(template).render(ASKED)


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
def test_what_would_never_end_or_fill_the_memory_is_stopped(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are the system's own; the worker never grows beyond them, and this process not at all."""
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    started = time.perf_counter()
    with pytest.raises(RunError) as error:
        ChatTemplate(template).render(ASKED)
    assert "\n" not in str(error.value)
    assert time.perf_counter() - started < WAIT + 10


def test_one_process_renders_all_conversations_and_keeps_nothing_of_them() -> None:
    template = ChatTemplate("{% if seen is defined %}{{ seen }}{% endif %}{% set seen = messages[0].content %}{{ seen }}")
    numbers = set()
    for text in ("é\n1", "two", "three"):
        assert template.render([{"role": "user", "content": text}]) == text
        numbers.add(template.renderer.process.pid)
    assert len(numbers) == 1


def test_a_process_that_was_stopped_is_started_again() -> None:
    template = ChatTemplate("{{ 'x' * messages[0].content | int }}")
    many = [{"role": "user", "content": str(10**9)}]
    few = [{"role": "user", "content": "3"}]
    for _ in range(2):
        assert template.render(few) == "xxx"
        with pytest.raises(RunError, match="stopped"):
            template.render(many)
    template.render(few)
    template.renderer.process.kill()
    template.renderer.process.wait()
    assert template.render(few) == "xxx"
    process = template.renderer.process
    del template
    gc.collect()
    assert process.poll() is not None


@pytest.mark.parametrize(
    ("template", "kind", "said"),
    [
        ("a\n\n{% for %}", RunError, ":3: is no chat template: Expected an expression"),
        ("{% include '/etc/passwd' %}", RunError, "no loader"),
        ("{% import 'os' as os %}", RunError, "no loader"),
        ("{{ nobody.home }}", RunError, "does not work on this conversation: UndefinedError"),
        ("{{ 1 / 0 }}", RunError, "ZeroDivisionError"),
        ("{{ raise_exception('only one question') }}", UsageError, "refuses this conversation: only one question"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(template: str, kind: type[AttentifError], said: str, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(template)
    found = ChatTemplate.from_folder(tmp_path)
    assert found is not None
    with pytest.raises(kind) as error:
        found.render(ASKED)
    assert str(error.value).startswith(str(tmp_path / "chat_template.jinja"))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_transformers_gives_to_templates_is_there() -> None:
    template = "{{ strftime_now('%Y') | int > 2000 }} {{ {'a': 'é<'} | tojson }}{% generation %} {{ bos_token }}{% endgeneration %}"
    assert ChatTemplate(template).render(ASKED, {"bos_token": "<s>"}) == 'True {"a": "é<"} <s>'


def test_templates_are_found_by_name(tmp_path: Path) -> None:
    assert ChatTemplate.from_folder(tmp_path) is None
    said = tmp_path / "tokenizer_config.json"
    said.write_text("{}")
    assert ChatTemplate.from_folder(tmp_path) is None
    said.write_text(json.dumps({"chat_template": "one"}))
    assert ChatTemplate.from_folder(tmp_path) == ChatTemplate("one", said)
    said.write_text(json.dumps({"chat_template": [{"name": "default", "template": "two"}, {"name": "rag", "template": "three"}]}))
    assert ChatTemplate.from_folder(tmp_path) == ChatTemplate("two", said)
    assert ChatTemplate.from_folder(tmp_path, "rag") == ChatTemplate("three", said)
    with pytest.raises(RunError, match="'tools'"):
        ChatTemplate.from_folder(tmp_path, "tools")
    (tmp_path / "chat_template.jinja").write_text("four")
    assert ChatTemplate.from_folder(tmp_path) == ChatTemplate("four", tmp_path / "chat_template.jinja")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer_config.json", b"{", "is damaged: not JSON"),
        ("tokenizer_config.json", b'{"chat_template": 3}', "is not a text"),
        ("chat_template.jinja", b"\xff", "is damaged: not UTF-8"),
        ("chat_template.jinja", b"x" * (SOURCE + 1), "at most 200,000 are read"),
    ],
)
def test_a_damaged_file_is_one_line(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=said):
        ChatTemplate.from_folder(tmp_path)


def test_a_conversation_is_made_of_plain_values() -> None:
    with pytest.raises(UsageError, match=r"numbers,.*tables"):
        ChatTemplate("x").render([{"role": "user", "content": object()}])

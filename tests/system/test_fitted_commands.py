"""What is fitted, by the commands as a user types them: word vectors, n-grams, alignments; and the conversations."""

import io
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import terminal
from terminal import Done

import attentif as package
from attentif.files import cache_folder

pytestmark = pytest.mark.system

LANGUAGE = """\
data.train = "texte.txt"
task = { kind = "language", context = 16 }
tokenizer = { kind = "word", min_count = 1 }
model = { base = "window-mlp-tiny", width = 16 }
train = { steps = 6, eval_every = 6, checkpoint_every = 3, threads = 1 }
"""
TRANSLATE = """\
data = { train = "mots.fr", target = "mots.en" }
task = { kind = "translate", beams = 1 }
tokenizer = { kind = "word", min_count = 1 }
model = { base = "transformer-tiny", width = 16, layers = 1 }
train = { steps = 2, eval_every = 2, threads = 1 }
"""
RUNS = {
    "word2vec": ["word2vec", "--data", "texte.txt", "fit.size=8", "--seed", "3"],
    "glove": ["glove", "--data", "texte.txt", "fit.size=16", "fit.epochs=3"],
    "ngram": ["ngram", "--data", "texte.txt", "tokenizer.kind=char", "fit.order=4"],
    "ibm1": ["ibm1", "--data", "mots.fr", "--target", "mots.en", "fit.epochs=5", "--json"],
    "window-mlp": ["langue.toml"],
    "translate": ["traduit.toml"],
}
FILES = {"config.toml", "README.md", "model.safetensors", "tokenizer.json", "metrics.jsonl", "results.json", "report.html"}


def write_files(folder: Path) -> None:
    chance = random.Random(0)
    lines = [
        f"le {chance.choice(('roi', 'prince', 'duc'))} {chance.choice(('aime', 'quitte'))} la {chance.choice(('reine', 'dame'))} ."
        for _ in range(300)
    ]
    (folder / "texte.txt").write_text("\n".join(lines) + "\n")
    french, english = ["un", "deux", "trois", "quatre"], ["one", "two", "three", "four"]
    rows = [[chance.randrange(4) for _ in range(chance.randrange(1, 4))] for _ in range(120)]
    for name, words in (("mots.fr", french), ("mots.en", english)):
        (folder / name).write_text("".join(" ".join(words[number] for number in row) + "\n" for row in rows))
    (folder / "paires.tsv").write_text("roi\tprince\t4\nroi\taime\t1\nreine\tdame\t3,5\nroi\tabsent\t2\n")
    (folder / "questions.txt").write_text(": famille\nroi reine prince dame\nroi reine homme femme\n")
    (folder / "langue.toml").write_text(LANGUAGE)
    (folder / "traduit.toml").write_text(TRANSLATE)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Done]]:
    """A run of each kind in a folder that stays the current one."""
    folder = tmp_path_factory.mktemp("fitted")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ATTENTIF_CACHE", str(cache_folder()))
        done = {}
        for name, words in RUNS.items():
            done[name] = terminal.typed("train", *words, "--out", f"runs/{name}")
        yield done


@pytest.fixture
def typed(fitted: dict[str, Done]) -> Callable[..., Done]:
    """In the folder of these runs."""
    return terminal.typed


def test_every_kind_makes_the_same_run_folder(fitted: dict[str, Done]) -> None:
    for name, done in fitted.items():
        assert done.code == 0, (name, done.err)
        assert {path.name for path in Path("runs", name).iterdir()} >= FILES
    results = json.loads(fitted["ibm1"].out)
    assert results["scores"]["perplexity"] < results["baselines"][0]["scores"]["perplexity"]
    assert "one-hot vectors" in fitted["glove"].out
    assert "seed = 3" in Path("runs/word2vec/config.toml").read_text()
    page = Path("runs/ibm1/report.html").read_text()
    assert "trois" in page
    assert 'src="http' not in page


def test_a_run_is_fitted_again_from_its_own_configuration_to_the_same_bits(typed: Callable[..., Done]) -> None:
    assert typed("train", "runs/word2vec/config.toml", "--out", "again").code == 0
    assert Path("again/model.safetensors").read_bytes() == Path("runs/word2vec/model.safetensors").read_bytes()
    assert typed("train", "word2vec", "--data", "texte.txt", "--out", "again").code == 2  # it is there
    done = typed("train", "--resume", "again")
    assert done.code == 0
    assert "is finished" in done.err


@pytest.mark.parametrize("name", ["word2vec", "glove", "window-mlp"])  # and the embedding of a model whose tokens are words
def test_words_have_neighbours_and_analogies(name: str, typed: Callable[..., Done]) -> None:
    done = typed("neighbours", f"runs/{name}", "roi", "-n", "3", "--json")
    near = json.loads(done.out)
    assert len(near) == 3
    assert near[0]["cosine"] >= near[1]["cosine"]
    assert typed("neighbours", f"runs/{name}", "roi", "prince", "reine").out.count("°") == 2
    answers = [answer["word"] for answer in json.loads(typed("analogy", f"runs/{name}", "roi", "prince", "dame", "--json").out)]
    assert not {"roi", "prince", "dame"} & set(answers)
    unknown = typed("neighbours", f"runs/{name}", "reines")
    assert unknown.code == 2
    assert "did you mean 'reine'" in unknown.err


def test_words_with_hyphens_have_vectors_where_that_is_asked(typed: Callable[..., Done]) -> None:
    Path("ville.txt").write_text("le chien et le chat jouent\nun gratte-ciel monte au ciel\nle vent gratte la porte\n" * 20)
    for name, words in (("cut", []), ("whole", ["tokenizer.hyphens=true"])):
        done = typed("train", "word2vec", "--data", "ville.txt", "--out", name, "fit.size=8", "fit.epochs=1", *words)
        assert done.code == 0, done.err
    assert typed("neighbours", "whole", "chien", "chat", "gratte-ciel").out.count("°") == 2
    refused = typed("neighbours", "cut", "chien", "chat", "gratte-ciel")
    assert refused.code == 2
    assert "cut at hyphens: gratte, ciel have one each; tokenizer.hyphens=true keeps such words whole" in refused.err


def test_word_vectors_are_scored_against_people(typed: Callable[..., Done]) -> None:
    found = json.loads(typed("evaluate", "runs/glove", "--data", "paires.tsv", "--json").out)
    assert found["examples"] == 3
    assert found["scores"]["asked"] == 0.75
    assert -1 <= found["scores"][found["metric"]] <= 1
    assert found["metric"] == "spearman"
    found = json.loads(typed("evaluate", "runs/glove", "--data", "questions.txt", "--json").out)
    assert found["details"]["sections"] == [["famille", pytest.approx(0, abs=1), 1, 2]]
    assert "neighbouring pairs" in typed("evaluate", "runs/glove").out
    Path("ailleurs.tsv").write_text("lune\tastre\t3.5\nfusée\tsoleil\t1.0\n")
    none = typed("evaluate", "runs/glove", "--data", "ailleurs.tsv")
    assert none.code == 1
    assert "none of the 2 pairs can be asked: each has a word that is not among the" in none.err
    Path("une.tsv").write_text("roi\treine\t3.5\nfusée\troi\t1.0\n")
    one = typed("evaluate", "runs/glove", "--data", "une.tsv")
    assert one.code == 1
    needed = "a correlation needs at least two pairs whose words both have a vector"
    assert one.err.strip().splitlines()[-1] == f"error: {needed}: 1 of 2 pairs and 2 of 3 words are known"
    Path("pareil.tsv").write_text("roi\treine\t3\nroi\tprince\t3\n")
    assert "pairs that differ, and all people's scores are 3" in typed("evaluate", "runs/glove", "--data", "pareil.tsv").err


def test_vectors_go_to_a_file_and_from_it_into_a_model(typed: Callable[..., Done]) -> None:
    assert typed("vectors", "runs/glove", "--to", "mots.vec").code == 0
    assert typed("vectors", "runs/glove", "--to", "mots.vec").code == 2
    done = typed("train", "langue.toml", "model.frontend.vectors=mots.vec", "train.lr=1e-9", "--out", "begun")
    assert done.code == 0, done.err
    assert "words of the vocabulary begin with the vectors of mots.vec" in done.err
    Path("mots.vec").rename("elsewhere.vec")  # it is needed no more
    own, given = package.load("begun").vectors, package.load("runs/glove").vectors
    for word in ("roi", "aime"):
        assert np.dot(own.unit[own.number(word)], given.unit[given.number(word)]) == pytest.approx(1, abs=1e-4)
    done = typed("train", "langue.toml", "model.frontend.vectors=elsewhere.vec", "model.width=32", "--out", "wide")
    assert done.code == 2
    assert "vectors of 16 components" in done.err
    assert not Path("wide").exists()
    assert "no such file" in typed("train", "langue.toml", "model.frontend.vectors=rien.vec", "--out", "wide").err


@pytest.mark.parametrize(("line", "message"), [("zzz", "has no vector for any of the"), ("roi nan", "mots.vec:1: a number is not finite")])
def test_vectors_that_cannot_be_used_leave_no_run_and_replace_none(line: str, message: str, typed: Callable[..., Done]) -> None:
    Path("mots.vec").write_text(f"{line}{' 1' * (17 - len(line.split()))}\n")
    before = Path("runs/glove/config.toml").read_text()
    for out in (["--out", "new"], ["--out", "runs/glove", "--force"]):
        done = typed("train", "langue.toml", "model.frontend.vectors=mots.vec", *out)
        assert done.code != 0
        assert message in done.err
    assert not Path("new").exists()
    assert Path("runs/glove/config.toml").read_text() == before


@pytest.mark.parametrize("name", ["mots.vec", "mots.txt", "mots.bin", "mots.glove.gz"])
def test_a_file_of_vectors_is_asked_as_the_run_that_it_comes_from(name: str, typed: Callable[..., Done]) -> None:
    assert typed("vectors", "runs/glove", "--to", name, "--force").code == 0
    for words in (["neighbours", "{}", "roi", "-n", "3"], ["neighbours", "{}", "roi", "dame"], ["analogy", "{}", "roi", "prince", "dame"]):
        asked = [typed(*(word.format(source) for word in words), "--json") for source in (name, "runs/glove")]
        assert [json.loads(done.out) for done in asked] == [json.loads(asked[1].out)] * 2
    judged = [json.loads(typed("evaluate", source, "--data", "paires.tsv", "--json").out)["scores"] for source in (name, "runs/glove")]
    assert judged[0] == judged[1]
    assert typed("vectors", name, "--to", "again.vec", "--force").code == 0
    assert np.array_equal(package.load("again.vec").vectors.matrix, package.load("runs/glove").vectors.matrix)


def test_a_file_is_refused_where_a_run_is_wanted(typed: Callable[..., Done]) -> None:
    assert typed("vectors", "runs/glove", "--to", "mots.vec", "--force").code == 0
    for words in (["predict", "mots.vec", "roi"], ["generate", "mots.vec", "le"], ["chat", "mots.vec"], ["evaluate", "mots.vec"]):
        done = typed(*words)
        assert (done.code, done.err.count("\n")) == (2, 1), words
        assert "error: mots.vec: " in done.err
    done = typed("neighbours", "texte.txt", "roi")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "error: texte.txt:1: " in done.err


def test_ngrams_write_and_are_scored_on_the_scales_of_the_neural_models(typed: Callable[..., Done]) -> None:
    done = typed("generate", "runs/ngram", "le r", "--max-tokens", "12", "--temperature", "0.5", "--seed", "1")
    assert done.out.startswith("le r")
    assert done.out == typed("generate", "runs/ngram", "le r", "--max-tokens", "12", "--temperature", "0.5", "--seed", "1").out
    step = json.loads(typed("generate", "runs/ngram", "le roi aim", "--max-tokens", "1", "--probabilities", "--json").out)["steps"][0]
    assert step["token"] == "e"
    assert step["probability"] > 0.9
    scores = json.loads(typed("evaluate", "runs/ngram", "--data", "texte.txt", "--json").out)["scores"]
    assert set(scores) == {"bits_per_byte", "loss", "perplexity"}
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))


def test_alignments_are_shown_beside_attention(typed: Callable[..., Done]) -> None:
    done = typed("align", "runs/ibm1", "un trois", "one three", "--beside", "runs/translate", "--out", "align.html", "--json")
    counted, attention = json.loads(done.out[: done.out.rindex("]") + 1])
    assert [link[:2] for link in counted["links"]] == [["one", "un"], ["three", "trois"]]
    assert attention["system"] == "attention of runs/translate"
    assert "three" in Path("align.html").read_text()
    assert typed("align", "runs/ibm1", "un", "one", "--out", "align.html").code == 2
    assert typed("align", "runs/ngram", "un", "one").code == 2


def test_what_a_run_cannot_do_is_refused_in_one_line(typed: Callable[..., Done]) -> None:
    for words in (
        ["predict", "runs/word2vec", "roi"],
        ["generate", "runs/glove", "le"],
        ["neighbours", "runs/ngram", "roi"],
        ["maps", "runs/ibm1", "un"],
        ["paint", "runs/glove", "un sept", "--out", "sept.png"],
        ["chat", "runs/glove"],
    ):
        done = typed(*words)
        assert (done.code, done.err.count("\n")) == (2, 1), words
        assert "fitted" in done.err
    assert "--language" in typed("predict", "runs/word2vec", "roi", "--language", "fr").err
    assert "takes no changes" in typed("evaluate", "runs/word2vec", "task.fill=linear").err
    assert "--dry-run" in typed("train", "ngram", "--dry-run").err
    assert "one core" in typed("train", "ngram", "--device", "cpu").err
    assert "fit.oder: unknown key; did you mean 'order'" in typed("train", "ngram", "fit.oder=3").err
    assert "fitted, not trained" in typed("train", "langue.toml", "model.from=runs/ngram", "--out", "no").err


@pytest.mark.parametrize(
    ("file", "message"),
    [("vide.txt", "is empty"), ("rien.txt", "no such file"), ("octets.txt", "UTF-8")],
)
def test_bad_text_is_one_honest_line(file: str, message: str, typed: Callable[..., Done]) -> None:
    if file != "rien.txt":
        Path(file).write_bytes(b"" if file == "vide.txt" else b"le roi\n\xff\xfe\n" * 50)
    for kind in ("ngram", "word2vec"):
        done = typed("train", kind, "--data", file, "--out", "bad")
        assert done.code != 0
        assert message in done.err.splitlines()[-1]
        assert not Path("bad").exists()


def test_python_users_get_a_fitted_run(fitted: dict[str, Done]) -> None:
    run = package.train("ngram", data="texte.txt", tokenizer={"kind": "char"}, fit={"order": 2}, out="python")
    assert list(run.capabilities) == ["generate", "chat"]
    assert run.results["task"] == "ngram"
    assert len(run.generate("le", max_tokens=4, seed=0).tokens) <= 4
    assert "bits" in run._repr_html_()


# ------------------------------------------------------------------------------------------------------------------- chat


def said(monkeypatch: pytest.MonkeyPatch, typed: Callable[..., Done], words: str, *command: str) -> Done:
    monkeypatch.setattr(sys, "stdin", io.StringIO(words))
    return typed("chat", *command)


@pytest.mark.parametrize("end", ["/quit\n", "", "au revoir\n"])
def test_eliza_talks_until_one_leaves(end: str, monkeypatch: pytest.MonkeyPatch, typed: Callable[..., Done]) -> None:
    done = said(monkeypatch, typed, f"Je suis triste\n\nJe rêve de la mer\n{end}", "eliza")
    assert done.code == 0
    assert done.out.splitlines()[1:3] == ["Je regrette d'apprendre que vous êtes triste.", "Que vous inspire ce rêve de la mer ?"]
    assert len(done.out.splitlines()) == (4 if end == "au revoir\n" else 3)
    assert said(monkeypatch, typed, "I am sad\n", "eliza", "--lang", "en").out.splitlines()[1].startswith("I am sorry")
    assert said(monkeypatch, typed, "", "eliza", "--lang", "de").code == 2


@pytest.mark.parametrize("name", ["ngram", "window-mlp"])
def test_a_language_model_answers_and_what_was_said_stays_in_its_state(
    name: str, monkeypatch: pytest.MonkeyPatch, typed: Callable[..., Done]
) -> None:
    lines = "le roi aime\nle prince quitte\nle duc\n"
    done = said(monkeypatch, typed, lines, f"runs/{name}", "--max-tokens", "6", "--seed", "0", "--temperature", "0")
    assert done.code == 0
    assert len(done.out.splitlines()) == 3
    assert "continues the dialogue" in done.err
    assert said(monkeypatch, typed, "un\n", "runs/translate").code == 2


def test_ctrl_c_leaves_a_conversation_cleanly(fitted: dict[str, Done]) -> None:
    call = [sys.executable, "-m", "attentif", "chat", "eliza"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as talk:
        assert talk.stdout is not None
        assert talk.stdout.readline().startswith("Bonjour")
        time.sleep(0.2)  # it waits for a line
        talk.send_signal(signal.SIGINT)
        _, err = talk.communicate(timeout=60)
    assert (talk.returncode, err.strip()) == (0, "")

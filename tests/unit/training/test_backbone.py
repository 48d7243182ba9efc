"""`model.from`: the vocabulary and the body of another run, under the head of the task."""

import shutil

import pytest
import torch
from toy import Words

from attentif.config import Layer, to_toml
from attentif.errors import AttentifError, ConfigError, RunError, UsageError
from attentif.training.estimate import estimate
from attentif.training.load import load_run_config
from attentif.training.manifest import accept_files
from attentif.training.progress import Silent
from attentif.training.run import resume, train
from attentif.training.signals import StoppedError
from attentif.training.weights import read_tensors

FILMS = ["film", "récit", "acteur", "décor", "scénario", "dialogue"]
TRAIN = {"steps": 6, "batch_tokens": 128, "log_every": 2, "eval_every": 6, "checkpoint_every": 2, "lr": 0.01, "threads": 1}
SMALL = {"width": 16, "layers": 1}
ENCODER = {"base": "encoder-tiny", "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}} | SMALL


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    tones = [("bon", "pos"), ("triste", "neg"), ("beau", "pos"), ("laid", "neg")]
    rows = [f"{tone} {thing} {number},{label}" for number in range(4) for thing in FILMS for tone, label in tones]
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    (folder / "textes.csv").write_text("\n".join(["text", *(row.split(",")[0] for row in rows)]))
    (folder / "paires.csv").write_text("\n".join(["source,target", *(f"{row.split(',')[0]},{row.split(' ')[0]}" for row in rows)]))
    return folder


def configured(task, data, model, **more):
    tables = {"data": {"train": str(data)}, "task": {"kind": task}, "model": model, "train": TRAIN} | more
    if "from" not in model:
        tables["tokenizer"] = {"kind": "word", "vocab": 60, "min_count": 1}
    return load_run_config(tables)


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    """A finished run of each kind that others begin with."""
    folder, threads = tmp_path_factory.mktemp("runs"), torch.get_num_threads()
    wanted = {
        "masked": ("masked", "textes.csv", ENCODER),
        "language": ("language", "textes.csv", {"base": "decoder-tiny"} | SMALL),
        "translate": ("translate", "paires.csv", {"base": "transformer-tiny"} | SMALL),
        "classify": ("classify", "avis.csv", ENCODER),
    }
    for name, (task, data, model) in wanted.items():
        train(configured(task, files / data, model), out=folder / name, display=Silent())
    yield folder
    torch.set_num_threads(threads)


def classify(files, runs, kind, **model):
    return configured("classify", files / "avis.csv", {"from": str(runs / kind)} | model)


@pytest.mark.parametrize(
    ("kind", "stack", "pool"), [("masked", "encoder", "mean"), ("language", "decoder", "last"), ("translate", "encoder", "mean")]
)
def test_the_body_goes_on_under_another_head(files, runs, tmp_path, kind, stack, pool):
    words = Words(stop_at=1)
    with pytest.raises(StoppedError):
        train(classify(files, runs, kind), out=tmp_path / "run", display=words)
    config = load_run_config(tmp_path / "run")
    assert (config.model.head.kind, config.model.head.pool) == ("classify", pool)
    assert (config.model.encoder is None, config.model.decoder is None) == (stack != "encoder", stack != "decoder")
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (runs / kind / "tokenizer.json").read_bytes()
    (said,) = [line for line in words.lines if "begins with" in line]
    assert "2 fresh ones (head.out.weight, head.out.bias)" in said
    before = read_tensors(runs / kind / "model.safetensors")
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    after = read_tensors(checkpoint / "model.safetensors")
    assert {name for name in after if name.split(".")[0] != "head"} == {n for n in before if n.split(".")[0] in ("frontend", stack)}
    for name in (f"{stack}.blocks.0.attn.mixer.q.weight", "frontend.tokens.weight"):
        assert (after[name] - before[name]).abs().max() <= 2.1 * TRAIN["lr"]  # two steps of Adam away at most


def test_every_weight_is_copied_to_the_last_bit(files, runs, tmp_path):
    """With a rate next to nothing, what comes out is what went in."""
    config = classify(files, runs, "masked")
    still = config.replace(train=config.train.replace(lr=1e-30, weight_decay=0.0))
    train(still, out=tmp_path / "run", display=Silent())
    before, after = (read_tensors(folder / "model.safetensors") for folder in (runs / "masked", tmp_path / "run"))
    for name in after:
        if not name.startswith("head."):
            assert torch.equal(after[name], before[name]), name


def test_what_a_body_was_never_given_beside_its_tokens_begins_afresh(files, runs, tmp_path):
    words = Words()
    told = lambda folder, name: (config := classify(files, folder, name)).replace(task=config.task.replace(linear="stacked"))
    train(told(runs, "masked"), out=tmp_path / "run", display=words)
    (said,) = [line for line in words.lines if "begins with" in line]
    assert "3 fresh ones (frontend.features.weight, head.out.weight, head.out.bias)" in said
    assert read_tensors(tmp_path / "run" / "model.safetensors")["frontend.features.weight"].abs().max() <= 6.1 * TRAIN["lr"]  # from zero on
    train(told(tmp_path, "run"), out=tmp_path / "again", display=words)
    assert "fresh" not in [line for line in words.lines if "begins with" in line][-1]


def test_the_resolved_configuration_names_the_run_and_trains_again_alike(files, runs, tmp_path):
    first = train(classify(files, runs, "masked"), out=tmp_path / "one", display=Silent())
    text = first.config.read_text()
    assert f'from = "{runs / "masked"}"' in text
    again = load_run_config(first.config)
    assert to_toml(again) == text
    assert again.made.weights is not None
    second = train(again, out=tmp_path / "two", display=Silent())
    assert first.weights.read_bytes() == second.weights.read_bytes()
    assert load_run_config(second.config).made.weights == again.made.weights


def test_keys_beside_it_win_over_the_runs(files, runs):
    model = classify(files, runs, "masked", dropout=0.4, head={"kind": "classify", "pool": "max"}).model
    assert (model.dropout, model.head.pool, model.width) == (0.4, "max", 16)


def test_over_a_recipe_it_stands_for_the_recipes_model_and_tokenizer(runs):
    config = load_run_config("reviews", [Layer({"model": {"dropout": 0.3}}, "a"), Layer({"model": {"from": str(runs / "masked")}}, "b")])
    assert (config.model.width, config.model.dropout, config.tokenizer.kind) == (16, 0.3, "word")


def test_a_head_is_kept_where_task_and_labels_are_the_same(files, runs, tmp_path):
    words = Words(stop_at=1)
    with pytest.raises(StoppedError):
        train(classify(files, runs, "classify"), out=tmp_path / "run", display=words)
    assert not any("fresh" in line for line in words.lines)
    other = files / "autres.csv"
    other.write_text((files / "avis.csv").read_text().replace("pos", "oui"))
    words = Words(stop_at=1)
    with pytest.raises(StoppedError):
        train(configured("classify", other, {"from": str(runs / "classify")}), out=tmp_path / "other", display=words)
    assert any("2 fresh ones" in line for line in words.lines)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"from": "nowhere"}}, "model.from: nowhere: no such run"),
        ({"model": {"from": 3}}, "must be the folder of a run"),
        ({"model": {"base": "encoder-tiny"}}, "leave one of the two out"),
        ({"tokenizer": {"kind": "word", "vocab": 50}}, "keeps the vocabulary"),
        ({"tokenizer": {"kind": "char"}}, "keeps the vocabulary"),
        ({"model": {"frontend": {"position": {"kind": "learned", "max_len": 64}}}}, r"has no tensor frontend.position.table.weight"),
        ({"model": {"layers": 2}}, r"has no tensor encoder.blocks.1"),
        ({"model": {"width": 32}}, r"frontend.tokens.weight is \(\d+, 16\) in .* and \(\d+, 32\) here"),
    ],
)
def test_contradictions_are_one_line(files, runs, tmp_path, change, words):
    source = {"data": {"train": str(files / "avis.csv")}, "task": {"kind": "classify"}, "train": TRAIN}
    layers = [Layer({"model": {"from": str(runs / "masked")}}, "from"), Layer(change, "option")]
    with pytest.raises(ConfigError, match=words) as error:
        train(load_run_config(source, layers), out=tmp_path / "run", display=Silent())
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_the_same_tokenizer_may_be_said(files, runs):
    table = {"kind": "word", "vocab": 60, "min_count": 1}
    config = load_run_config(
        {
            "data": {"train": str(files / "avis.csv")},
            "task": {"kind": "classify"},
            "model": {"from": str(runs / "masked")},
            "train": TRAIN,
            "tokenizer": table,
        }
    )
    assert config.tokenizer.vocab == 60


def test_a_longer_table_of_positions_is_another_shape(files, tmp_path):
    learned = ENCODER | {"frontend": {"position": {"kind": "learned", "max_len": 24}}}
    train(configured("masked", files / "textes.csv", learned), out=tmp_path / "short", display=Silent())
    longer = {"from": str(tmp_path / "short"), "frontend": {"position": {"max_len": 48}}}
    with pytest.raises(ConfigError, match=r"position.table.weight is \(24, 16\) in .* and \(48, 16\) here"):
        train(configured("classify", files / "avis.csv", longer), out=tmp_path / "run", display=Silent())


def test_a_run_without_weights_is_refused_and_one_with_a_checkpoint_is_not(files, runs, tmp_path):
    shutil.copytree(runs / "masked", tmp_path / "going")
    for name in ("model.safetensors", "manifest.json", "results.json"):
        (tmp_path / "going" / name).unlink()
    config = configured("classify", files / "avis.csv", {"from": str(tmp_path / "going")})
    train(config, out=tmp_path / "run", display=Silent())
    shutil.rmtree(tmp_path / "going" / "checkpoints")
    with pytest.raises(ConfigError, match="has no weights yet"):
        configured("classify", files / "avis.csv", {"from": str(tmp_path / "going")})


def test_it_does_not_take_the_place_of_the_run_it_begins_with(files, runs):
    with pytest.raises(UsageError, match=r"model\.from"):
        train(classify(files, runs, "masked"), out=runs / "masked", force=True, display=Silent())


def test_resumed_it_ends_with_the_same_bits_even_where_the_other_run_is_gone(files, runs, tmp_path):
    shutil.copytree(runs / "masked", tmp_path / "body")
    config = configured("classify", files / "avis.csv", {"from": str(tmp_path / "body")})
    whole = train(config, out=tmp_path / "whole", display=Silent())
    with pytest.raises(StoppedError):
        train(config, out=tmp_path / "run", display=Words(stop_at=3))
    shutil.rmtree(tmp_path / "body")
    resume(tmp_path / "run", display=Silent())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole.weights.read_bytes()


def test_resumed_before_its_first_checkpoint_it_begins_again_with_the_same_weights_or_says_no(files, runs, tmp_path):
    shutil.copytree(runs / "masked", tmp_path / "body")
    config = configured("classify", files / "avis.csv", {"from": str(tmp_path / "body")})
    whole = train(config, out=tmp_path / "whole", display=Silent())
    with pytest.raises(StoppedError):
        train(config, out=tmp_path / "run", display=Words(stop_at=1))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    resume(tmp_path / "run", display=Silent())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole.weights.read_bytes()
    shutil.copy(runs / "classify" / "model.safetensors", tmp_path / "body" / "model.safetensors")
    accept_files(tmp_path / "body")
    with pytest.raises(RunError, match=r"are.*started"):
        resume(tmp_path / "other", display=Silent())


def test_a_dry_run_counts_the_body(files, runs):
    found = estimate(classify(files, runs, "masked"), lambda _: None)
    assert found.parameters["head"] == 16 * 2 + 2
    assert found.steps == TRAIN["steps"]


def test_a_task_with_another_vocabulary_on_its_other_side_is_refused(files, runs, tmp_path):
    target = {"kind": "translate", "shared": False}
    with pytest.raises(AttentifError):
        train(
            load_run_config(
                {"data": {"train": str(files / "paires.csv")}, "task": target, "model": {"from": str(runs / "masked")}, "train": TRAIN}
            ),
            out=tmp_path / "run",
            display=Silent(),
        )

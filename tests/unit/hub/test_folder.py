"""Folders of other people's weights: what is wrong with one is said in one line, and nothing in it is run."""

import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attentif.cli.main import run as typed
from attentif.config import merge
from attentif.errors import AttentifError, ConfigError
from attentif.hub import read_folder, write_folder
from attentif.hub.rows import Row, SplitByHead, SplitParts, StackedTensors, Transposed
from attentif.hub.task_values import list_notes
from attentif.models import Model, build, resolve


def small(**changes: Any) -> Model:
    torch.manual_seed(0)
    sizes = {
        "width": 16,
        "layers": 2,
        "frontend": {"vocab": 50, "position": {"max_len": 20}},
        "decoder": {"block": {"attn": {"mixer": {"heads": 2}}, "ffn": {"mixer": {"hidden": 32}}}},
    }
    return build(resolve({"base": "gpt2"} | merge(sizes, changes))).eval()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "gpt2"
    write_folder(folder, small(), family="gpt2")
    return folder


def test_what_was_written_is_read(sound: Path) -> None:
    found = read_folder(sound)
    assert found.head.task == "language"
    assert found.tokenizer is None
    own = small().state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in found.model.state_dict().items())


PARTS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def cut_in_two(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    where = {name: PARTS[number % 2] for number, name in enumerate(sorted(tensors))}
    for file in PARTS:
        save_file({name: tensors[name] for name in where if where[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def test_shards_are_one_model(sound: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "shards"))
    cut_in_two(folder)
    whole, cut = read_folder(sound).model.state_dict(), read_folder(folder).model.state_dict()
    assert all(torch.equal(tensor, cut[name]) for name, tensor in whole.items())


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_the_names_of_wrappers_are_taken_off(wrapper: str, sound: Path, tmp_path: Path) -> None:
    """Models are saved with that of torch.compile or of DistributedDataParallel around them."""
    folder = Path(shutil.copytree(sound, tmp_path / "wrapped"))
    wrapped = {f"{wrapper}{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(wrapped, folder / "model.safetensors")
    whole, found = read_folder(sound).model.state_dict(), read_folder(folder).model.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.items())


def change(**values: Any) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config |= values
        (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))

    return changed


def pickled(protocol: int) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.safetensors").write_bytes(pickle.dumps({"weight": 1}, protocol=protocol))


def archived(folder: Path) -> None:
    with zipfile.ZipFile(folder / "model.safetensors", "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))


def renamed(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.safetensors").rename(folder / name)


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def sharded(spoil: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        cut_in_two(folder)
        spoil(folder)

    return damage


def shortened(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


def lost(folder: Path) -> None:
    """The index says that a tensor is in the other shard."""
    path = folder / "model.safetensors.index.json"
    path.write_text(path.read_text().replace(PARTS[0], PARTS[1]))


def tensors_changed(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return changed


def reshaped(tensors: dict[str, torch.Tensor]) -> None:
    """One that is cut into queries, keys and values: no third of it is whole."""
    tensors["transformer.h.0.attn.c_attn.weight"] = torch.zeros(16, 47)


def made_whole(tensors: dict[str, torch.Tensor]) -> None:
    """As programs that quantise leave them, without a word of it in config.json."""
    tensors.update({name: tensor.to(torch.int8) for name, tensor in tensors.items()})


def everything(tensors: dict[str, torch.Tensor]) -> None:
    """One is missing, one is too many, one has another shape: all of it is said."""
    reshaped(tensors)
    del tensors["transformer.wpe.weight"]
    tensors["extra"] = torch.zeros(2)


def outside(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../../etc/passwd.safetensors"}}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such folder"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: no such file"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json:1: is damaged: not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "holds a list, not an object"),
        (change(model_type="gpt-2"), "model_type: 'gpt-2' is not understood; did you mean 'gpt2'"),
        (change(model_type=None), "model_type: None is not understood"),
        (change(architectures=["GPT2DoubleHeadsModel"]), "architectures: 'GPT2DoubleHeadsModel' is not read here: it chooses among"),
        (change(architectures=["GPT2LMHead"]), "architectures: 'GPT2LMHead' is not understood; did you mean 'GPT2LMHeadModel'"),
        (change(pruned_heads={"0": [1]}), "pruned_heads: {'0': [1]} is not understood (only {})"),
        (change(auto_map={"AutoModel": "modeling.Own"}, model_type="own"), "Attentif runs none, and model_type 'own' is not known"),
        (change(n_embd=None), "n_embd: is missing"),
        (change(n_embd=20), "holds in another shape than config.json asks for transformer.wte.weight ((50, 16) for (50, 20)), "),
        (change(n_layer=3), "lacks transformer.h.2.ln_1.weight"),
        (change(n_layer=1), "holds, and nothing here reads, transformer.h.1"),
        (change(activation_function="swish"), "activation_function: 'swish' is not understood"),
        (change(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx: True is not understood"),
        (change(quantization_config={"bits": 4}), "quantization_config: quantised weights are not read"),
        (change(architectures="GPT2LMHeadModel"), "architectures: must be a list of names"),
        (change(id2label=["a"]), "id2label: must name the classes"),
        (change(id2label={"0": "a", "2": "b"}), "id2label: must name the classes"),
        (change(id2label={"0": "a", "1": "a"}), "id2label: two classes are called 'a'"),
        (change(n_embd="sixteen"), "config.json: describes a model that cannot be: width:"),
        (change(n_layer=10**9), "asks for 1,000,000,000 blocks"),
        (change(n_layer=-1), "config.json: describes a model that cannot be: layers:"),
        (change(vocab_size=[3]), "config.json: "),
        (written("config.json", "[" * 100_000), "is damaged: nested too deeply"),
        (written("generation_config.json", "{"), "generation_config.json:1: is damaged: not JSON"),
        (written("generation_config.json", '{"num_beams": "four"}'), "generation_config.json: holds a value of another form"),
        (written("tokenizer.json", "{}"), "tokenizer.json: is not a tokenizer"),
        (written("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": "own.Own"}}'), "asks for code that comes with the vocabulary"),
        (shortened("model.safetensors"), "is not a whole safetensors file"),
        (written("model.safetensors", ""), "is not a whole safetensors file"),
        *((pickled(protocol), "is a pickle by another name") for protocol in range(2, 6)),
        (archived, "is a pickle by another name"),
        (renamed("pytorch_model.bin"), "pytorch_model.bin: is pickled, which could run code; model.safetensors is needed"),
        (renamed("model.pt"), "model.pt: is pickled, which could run code"),
        (sharded(lambda folder: (folder / PARTS[1]).unlink()), f"names {PARTS[1]}, which is not there"),
        (
            sharded(lambda folder: (folder / "model.safetensors.index.json").unlink()),
            f"has {PARTS[0]}, and not model.safetensors.index.json",
        ),
        (renamed("consolidated.safetensors"), "has no model.safetensors; consolidated.safetensors"),
        (written("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:a\nsize 9\n"), "is a pointer of Git LFS"),
        (tensors_changed(made_whole), "holds whole numbers (torch.int8)"),
        (sharded(shortened(PARTS[0])), f"{PARTS[0]}: is not a whole safetensors file"),
        (sharded(lost), "does not hold transformer"),
        (sharded(written("model.safetensors.index.json", "{}")), "has no weight_map"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
        (tensors_changed(lambda tensors: tensors.pop("transformer.wte.weight")), "lacks transformer.wte.weight"),
        (tensors_changed(lambda tensors: tensors.update(extra=torch.zeros(2))), "nothing here reads, extra"),
        (tensors_changed(reshaped), "than config.json asks for transformer.h.0.attn.c_attn.weight ((16, 47) for (16, 48))"),
        (tensors_changed(everything), "lacks transformer.wpe.weight; it holds, and nothing here reads, extra; it holds in another shape"),
        (outside, "which is no safetensors file of this folder"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(sound: Path, tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "damaged"))
    damage(folder)
    with pytest.raises(AttentifError) as caught:
        read_folder(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is no Hugging Face folder: it has no config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
        (sharded(shortened(PARTS[0])), f"{PARTS[0]}: is not a whole safetensors file"),
        (tensors_changed(reshaped), "holds in another shape than config.json asks for"),
        (change(model_type="gpt-2"), "model_type: 'gpt-2' is not understood"),
        (change(auto_map={"AutoModel": "modeling.Own"}, model_type="own"), "asks for code that comes with the weights (auto_map)"),
        (pickled(4), "is a pickle by another name"),
    ],
)
def test_a_damaged_folder_is_not_imported(
    sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], damage: Callable[[Path], object], message: str
) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "damaged"))
    damage(folder)
    assert typed(["import", str(folder), str(tmp_path / "run")]) in (1, 2)
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_code_that_a_known_family_brings_is_said_and_not_run(sound: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "theirs"))
    change(auto_map={"AutoModelForCausalLM": "modeling.Own"})(folder)
    (folder / "modeling.py").write_text("raise SystemExit('it ran')")
    notes = list_notes(folder, read_folder(folder), {"kind": "language"})
    assert [note for note in notes if "auto_map" in note and "not run" in note]


def test_a_shared_matrix_that_was_saved_twice_is_read_once(sound: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "twice"))
    tensors_changed(lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"].clone()}))(folder)
    whole, twice = read_folder(sound).model.state_dict(), read_folder(folder).model.state_dict()
    assert whole.keys() == twice.keys()
    assert all(torch.equal(tensor, twice[name]) for name, tensor in whole.items())


def test_an_output_of_its_own_is_read_whatever_the_configuration_says(sound: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound, tmp_path / "own"))
    tensors_changed(lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"] + 1}))(folder)
    found = read_folder(folder).model
    assert not found.config.head.tied
    assert torch.equal(found.head.linear.weight, found.frontend.tokens.weight + 1)


def test_a_model_that_the_family_cannot_describe_is_not_written(tmp_path: Path) -> None:
    other = small(decoder={"placement": "sandwich"})
    with pytest.raises(ConfigError, match=r"gpt2 cannot represent decoder\.placement = 'sandwich'"):
        write_folder(tmp_path / "out", other, family="gpt2")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "operation",
    [Transposed(), SplitParts(), SplitParts(2, transposed=True), SplitByHead(heads=2), SplitByHead(2, (4, 2)), StackedTensors(3)],
)
def test_operations_come_back(operation: Any) -> None:
    theirs = [torch.randn(12, 12) for _ in operation.theirs("a.{e}")]
    again = operation.write(operation.read(theirs))
    assert all(torch.equal(left, right) for left, right in zip(theirs, again, strict=True))


def test_a_row_counts_blocks_weights_and_what_is_stacked() -> None:
    row = Row("h.{i}.e.{e}.{p}", "b.{i}.{p}", StackedTensors(2), blocks=range(1, 2))
    assert list(row.pairs(3)) == [
        (("h.1.e.0.weight", "h.1.e.1.weight"), ("b.1.weight",)),
        (("h.1.e.0.bias", "h.1.e.1.bias"), ("b.1.bias",)),
    ]

"""Runs exported as ONNX graphs, answered from by onnxruntime and `tokenizers` alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import typed

import attentif
from attentif.api import export_model, export_to_onnx
from attentif.errors import ConfigError, UsageError
from attentif.training.progress import Silent

pytestmark = pytest.mark.system

SETTINGS = {"min_steps": 0, "steps": 6, "baselines": False, "device": "cpu"}
TEXTS = ["un bon film", "Long, long film 3 ! et encore long", "bon"]
SMALL = {"width": 16, "layers": 1}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "films.csv"
    rows = [
        f"{word} film {n},{label}\n" for n in range(400) for word, label in (("bon", "oui"), ("long", "non")) if label == "oui" or n < 30
    ]
    path.write_text("text,label\n" + "".join(rows))
    return path


def answer(folder: Path, texts: list[str]) -> dict[str, Any]:
    """As a user of the folder does, who has neither Attentif nor PyTorch."""
    onnxruntime, tokenizers = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed"), pytest.importorskip("tokenizers")
    about = json.loads((folder / "attentif.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(about["max_len"])
    tokenizer.enable_padding()
    read = tokenizer.encode_batch(texts)
    inputs = {"input_ids": np.array([one.ids for one in read]), "attention_mask": np.array([one.attention_mask for one in read])}
    graph = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    return dict(zip(about["outputs"], graph.run(None, inputs), strict=True)) | {"labels": about["labels"]}


def test_a_classifier_with_calibration_and_thresholds_answers_as_its_run(films: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    block = {"block": {"attn": {"mixer": {"heads": 2}}}}
    model = {"base": "esm-tiny", **SMALL, "encoder": block}
    run = attentif.train("reviews", str(films), out=tmp_path / "run", watch=Silent(), model=model, train=SETTINGS)
    assert run.state.answers.offsets  # one class in eight is rare
    made = export_to_onnx(run.path, tmp_path / "onnx")
    found, expected = answer(made.path, TEXTS), run.predict(TEXTS)
    p = np.exp(found["logits"] - np.logaddexp.reduce(found["logits"], axis=1, keepdims=True))
    for row, one in enumerate(expected):
        assert found["labels"][found["label"][row]] == one.output
        assert p[row] == pytest.approx([one.scores[label] for label in found["labels"]], abs=1e-4)  # float32, other order of sums
    again = typed("export", str(run.path), str(tmp_path / "onnx"), "--to", "onnx")
    assert again.code != 0
    assert "--force" in again.err


def test_the_network_of_a_stacked_run_is_exported_alone_on_request_only(films: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    run = attentif.train("classify", str(films), out=tmp_path / "run", watch=Silent(), model={"width": 16}, train=SETTINGS)
    with pytest.raises(ConfigError, match="--network-alone"):
        export_to_onnx(run.path, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    made = export_to_onnx(run.path, tmp_path / "onnx", network_alone=True)
    assert "validation" in made.caveat
    assert "without the linear model" in (made.path / "README.md").read_text()
    found = answer(made.path, TEXTS)  # an LSTM in both directions: a Scan each way
    assert found["logits"].shape == (3, 2)
    one_by_one = np.concatenate([answer(made.path, [text])["logits"] for text in TEXTS])
    np.testing.assert_allclose(found["logits"], one_by_one, atol=1e-5)  # padding changes nothing but the order of sums


def test_a_stacked_network_of_a_known_family_is_exported_alone_to_hugging_face(films: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = {"base": "esm-tiny", **SMALL, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
    run = attentif.train("classify", str(films), out=tmp_path / "run", watch=Silent(), model=model, train=SETTINGS)
    with pytest.raises(ConfigError, match="--network-alone"):
        export_model(run.path, tmp_path / "hf")
    made = export_model(run.path, tmp_path / "hf", network_alone=True)
    assert "on validation" in made.caveat
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(made.path)
    assert theirs.config.num_labels == 2
    with pytest.raises(UsageError, match="--network-alone"):
        export_model(made.path, tmp_path / "hf2", network_alone=True)


def test_a_mixer_that_is_a_compiled_loop_is_refused_by_name(films: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    model = {"base": "mamba-tiny", **SMALL}
    run = attentif.train("reviews", str(films), out=tmp_path / "run", watch=Silent(), model=model, train=SETTINGS)
    with pytest.raises(ConfigError, match=r"blocks\.0\..*Mamba"):
        export_to_onnx(run.path, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_pictures_go_in_as_they_are_in_a_file(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from PIL import Image

    draw = np.random.default_rng(0)
    for label, level in (("clair", 200), ("sombre", 20)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(draw.normal(level, 20, (16, 16)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    model = {**SMALL, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
    run = attentif.train("mnist", str(tmp_path / "photos"), out=tmp_path / "run", watch=Silent(), model=model, train=SETTINGS)
    made = export_to_onnx(run.path, tmp_path / "onnx")
    photo = tmp_path / "photos" / "clair" / "0.png"
    about = json.loads((made.path / "attentif.json").read_text())
    pixels = np.asarray(Image.open(photo).resize((about["width"], about["height"])), np.float32)[None, None]
    (logits,) = onnxruntime.InferenceSession(str(made.path / "model.onnx")).run(None, {"pixel_values": pixels})
    p = np.exp(logits[0]) / np.exp(logits[0]).sum()
    (expected,) = run.predict([str(photo)])
    assert p == pytest.approx([expected.scores[label] for label in about["labels"]], abs=1e-4)  # float32, other order of sums

"""The speech task's part of the report, drawn from an evaluation's details alone, and the alignments among these."""

from functools import partial
from typing import Any

import numpy as np
import torch

from attentif.decode.ctc import align
from attentif.models import Batch, Input, Model, evaluating
from attentif.nn.mixer import CrossMixer
from attentif.nn.seq import Seq
from attentif.nn.tape import record
from attentif.tasks.feed import device_of
from attentif.tasks.looking import shown_tokens
from attentif.tasks.report import NOTHING, WHERE_WRONG, WORST_ERRORS, slices
from attentif.tasks.sound.speech_data import Objective, Utterances, sound_input
from attentif.tasks.sound.speech_opening import transcript_ids
from attentif.tasks.task import Evaluation
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, Table, Tokens
from attentif.view.words import IN_WORDS, Text, Words

MOST_COLUMNS = 300  # of a spectrogram: longer sounds are shown coarser


def speech_sections(evaluation: Evaluation, objective: Objective) -> list[Section]:
    details = evaluation.details
    if "transcripts" not in details:
        return []
    sections = []
    if details["aligned"]:
        sections.append(
            Section(Text("Quand le modèle a entendu quoi", "When the model heard what"), _alignments(details["aligned"], objective))
        )
    if "confusion" in details and np.trace(np.asarray(details["confusion"])) < np.sum(details["confusion"]):
        sections.append(Section(Text("Ce qui est pris pour autre chose", "What is taken for something else"), _confused(details)))
    if found := slices(details, "wer", Text("Selon le nombre de mots", "By the number of words"), unit=IN_WORDS):
        sections.append(Section(WHERE_WRONG, found))
    for key, title in (("wrong", WORST_ERRORS), ("transcripts", Text("Transcriptions", "Transcripts"))):
        if details[key]:
            sections.append(Section(title, _transcripts(details[key])))
    return sections


def _transcripts(entries: list[dict[str, Any]]) -> list[Block]:
    about = Text(
        "Ce qui a été dit, et ce que le modèle a écrit. D'une couleur les mots qu'il a manqués ou changés, de l'autre ce qu'il a mis à la "
        "place ou en trop.",
        "What was said, and what the model wrote. In one colour the words that it missed or changed, in the other what it put in their "
        "place or added.",
    )
    heads: list[Words] = [Text("dit", "said"), Text("écrit", "written"), Text("son", "sound")]
    rows: list[list[Cell]] = [[_spaced(e["said"], e["missed"]), _spaced(e["heard"], e["wrong"]), e["audio"]] for e in entries]
    return [Paragraph(about), Table(heads, rows)]


def _spaced(words: list[str], values: list[float]) -> Cell:
    return Tokens([f"{word} " for word in words], values, whole=1.0) if words else NOTHING


def _confused(details: dict[str, Any]) -> list[Block]:
    from attentif.view.figures import confusion_matrix

    about = Text(
        "Une ligne par mot dit : ce que le modèle a entendu. La diagonale est juste.",
        "A row per word said: what the model heard. The diagonal is right.",
    )
    draw = partial(confusion_matrix, np.asarray(details["confusion"]), details["classes"])
    return [FigureBlock(Text("Matrice de confusion", "Confusion matrix"), draw, about)]


# ----------------------------------------------------------------------------------------------------------- alignments


def _alignments(aligned: list[dict[str, Any]], objective: Objective) -> list[Block]:
    from attentif.view.figures.speech import sound_alignment

    ctc = Text(
        "En haut, le spectrogramme log-mel. En bas, la probabilité qu'un jeton plutôt que rien soit dit à chaque instant : un modèle CTC "
        "parle par pics, à l'endroit où l'alignement le plus probable de sa transcription entend chaque jeton.",
        "Above, the log-mel spectrogram. Below, the probability that some token rather than nothing is said at each moment: a CTC model "
        "speaks in spikes, where the likeliest alignment of its transcript hears each token.",
    )
    attention = Text(
        "En haut, le spectrogramme log-mel. En bas, où le décodeur regarde le son quand il écrit chaque jeton (dernière couche, moyenne "
        "des têtes).",
        "Above, the log-mel spectrogram. Below, where the decoder looks at the sound as it writes each token (last layer, mean of the "
        "heads).",
    )
    about = attention if objective == "seq2seq" else ctc
    blocks: list[Block] = []
    for place, entry in enumerate(aligned):
        title = Text(f"« {entry['written']} »", f"“{entry['written']}”")
        blocks.append(FigureBlock(title, partial(sound_alignment, entry), about if place == 0 else ""))
    return blocks


def alignment_of(model: Model, dataset: Utterances, row: int, written: str) -> dict[str, Any]:
    """One sound, and when each token of its transcript was heard: plain data for `sound_alignment`."""
    sound, tokenizer, features = dataset.frames[row], dataset.tokenizer, dataset.features
    frames = features.spectrum(sound)
    assert tokenizer is not None
    coarse = -(-len(frames) // MOST_COLUMNS)
    picture = frames[: len(frames) // coarse * coarse].unflatten(0, (-1, coarse)).mean(1).numpy()
    low, high = np.quantile(picture, [0.05, 1.0])
    shades = np.rint(100 * np.clip((picture - low) / max(high - low, 1e-6), 0, 1)).astype(int)
    entry: dict[str, Any] = {"written": written, "seconds": len(sound) * features.step, "spectrogram": shades.T.tolist()}
    source = sound_input([sound], whole=dataset.whole).to(device_of(model))
    share = len(sound) / source.seq.max_len  # the rest is silence
    if dataset.objective == "seq2seq":
        return entry | _attended(model, source, transcript_ids(dataset.opening, tokenizer, [written])[0], dataset, share)
    with evaluating(model):
        logits, seq = model(Batch(source))
    log_p = logits[0, : int(seq.lengths[0])].double().log_softmax(-1).cpu().numpy()
    tokens = tokenizer.ids_batch([written], wrap="none")[0].tolist()
    heard = align(log_p, tokens)
    seconds = entry["seconds"] / share / len(log_p)
    shown = [
        {"text": text, "start": round(own.start * seconds, 3), "end": round(own.end * seconds, 3)}
        for text, own in zip(shown_tokens(tokenizer, tokens), heard, strict=True)
    ]
    return entry | {"tokens": shown, "spoken": np.round(1 - np.exp(log_p[: _part(len(log_p), share), 0]), 3).tolist()}


def _part(vectors: int, share: float) -> int:
    return max(1, round(vectors * share))


def _attended(model: Model, source: Input, ids: Any, dataset: Utterances, share: float) -> dict[str, Any]:
    """Where the decoder's last layer looked, as it wrote each token."""
    assert dataset.tokenizer is not None
    target = Input(torch.from_numpy(ids[None, :-1].astype(np.int64)), Seq.padded([len(ids) - 1])).to(device_of(model))
    with evaluating(model), record(model) as tape:
        model(Batch(source, target))
    path = [path for path in tape if isinstance(tape.mixers[path], CrossMixer)][-1]
    weights = tape.maps(path)[0].float().mean(0).cpu().numpy()  # (tokens, frames)
    weights = weights[:, : _part(weights.shape[1], share)]
    tokens = [{"text": text} for text in shown_tokens(dataset.tokenizer, ids[1:])]
    return {"tokens": tokens, "attention": np.round(weights / weights.max(1, keepdims=True), 3).tolist()}

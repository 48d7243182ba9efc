"""The speech task's part of the report, drawn from an evaluation's details alone, and the alignments among these."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch

from attentif.decode.ctc import align
from attentif.models import Batch, Input, Model, eval_mode
from attentif.nn.mixer import CrossMixer
from attentif.nn.seq import Seq
from attentif.nn.tape import record
from attentif.tasks.answers import Evaluation
from attentif.tasks.attention import readable_tokens
from attentif.tasks.batches import device_of
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.report import NOTHING, WHERE_WRONG, WORST_ERRORS, slices
from attentif.tasks.speech.data import Objective, Utterances, sound_input
from attentif.tasks.speech.prompt import transcript_ids
from attentif.view.blocks import Block, Cell, FigureBlock, Legend, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import IN_WORDS, Text, Words

MOST_COLUMNS = 300  # of a spectrogram: longer sounds are shown coarser


class ShownTranscript(TypedDict):
    said: list[str]
    missed: list[float]  # 1 for a word that the model missed
    heard: list[str]
    wrong: list[float]  # -1 for a word that was not said
    audio: str


class AlignedToken(TypedDict):
    text: str
    start: NotRequired[float]  # seconds
    end: NotRequired[float]


class SoundAlignment(TypedDict):
    """One sound, and when each token of its transcript was heard."""

    written: str
    seconds: float
    spectrogram: list[list[int]]
    tokens: list[AlignedToken]
    spoken: NotRequired[list[float]]  # CTC: probability of any token by frame
    attention: NotRequired[list[list[float]]]  # seq2seq: (tokens, frames)


class SpeechDetails(Sliced):
    wrong: list[ShownTranscript]
    transcripts: list[ShownTranscript]
    aligned: NotRequired[list[SoundAlignment]]
    classes: NotRequired[list[str]]
    confusion: NotRequired[list[list[int]]]


def speech_sections(evaluation: Evaluation, objective: Objective) -> list[Section]:
    if (details := details_of(evaluation, SpeechDetails)) is None:
        return []
    sections = []
    if aligned := details.get("aligned"):
        sections.append(Section(Text("Quand le modèle a entendu quoi", "When the model heard what"), _alignments(aligned, objective)))
    if "confusion" in details and "classes" in details and np.trace(np.asarray(details["confusion"])) < np.sum(details["confusion"]):
        sections.append(Section(Text("Ce qui est pris pour autre chose", "What is taken for something else"), _confusion(details)))
    if found := slices(details, "wer", Text("Selon le nombre de mots", "By the number of words"), unit=IN_WORDS):
        sections.append(Section(WHERE_WRONG, found))
    for entries, title in ((details["wrong"], WORST_ERRORS), (details["transcripts"], Text("Transcriptions", "Transcripts"))):
        if entries:
            sections.append(Section(title, _transcripts(entries)))
    return sections


def _transcripts(entries: Sequence[ShownTranscript]) -> list[Block]:
    about = Text("Ce qui a été dit, et ce que le modèle a écrit.", "What was said, and what the model wrote.")
    legend = Legend(
        Text("mot manqué ou changé", "word missed or changed"), Text("écrit à sa place, ou en trop", "written in its place, or added")
    )
    heads: list[Words] = [Text("dit", "said"), Text("écrit", "written"), Text("son", "sound")]
    rows: list[list[Cell]] = [[_space_words(e["said"], e["missed"]), _space_words(e["heard"], e["wrong"]), e["audio"]] for e in entries]
    return [Paragraph(about), legend, TableBlock(heads, rows)]


def _space_words(words: list[str], values: list[float]) -> Cell:
    return TokensBlock([f"{word} " for word in words], values, whole=1.0) if words else NOTHING


def _confusion(details: SpeechDetails) -> list[Block]:
    from attentif.view.figures import confusion_matrix

    about = Text(
        "Une ligne par mot dit : ce que le modèle a entendu. La diagonale est juste.",
        "A row per word said: what the model heard. The diagonal is right.",
    )
    assert "confusion" in details
    assert "classes" in details
    draw = partial(confusion_matrix, np.asarray(details["confusion"]), details["classes"])
    return [FigureBlock(Text("Matrice de confusion", "Confusion matrix"), draw, about)]


# ----------------------------------------------------------------------------------------------------------- alignments


def _alignments(aligned: Sequence[SoundAlignment], objective: Objective) -> list[Block]:
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


def align_transcript(model: Model, dataset: Utterances, row: int, written: str) -> SoundAlignment:
    """One sound, and when each token of its transcript was heard: plain data for `sound_alignment`."""
    sound, tokenizer, features = dataset.frames[row], dataset.tokenizer, dataset.features
    frames = features.spectrum(sound)
    assert tokenizer is not None
    coarse = -(-len(frames) // MOST_COLUMNS)
    picture = frames[: len(frames) // coarse * coarse].unflatten(0, (-1, coarse)).mean(1).numpy()
    low, high = np.quantile(picture, [0.05, 1.0])
    shades = np.rint(100 * np.clip((picture - low) / max(high - low, 1e-6), 0, 1)).astype(int)
    entry: SoundAlignment = {"written": written, "seconds": len(sound) * features.step, "spectrogram": shades.T.tolist(), "tokens": []}
    source = sound_input([sound], whole=dataset.whole).to(device_of(model))
    share = len(sound) / source.seq.max_len  # the rest is silence
    if dataset.objective == "seq2seq":
        ids = transcript_ids(dataset.opening, tokenizer, [written])[0]
        entry["tokens"], entry["attention"] = _attention(model, source, ids, dataset, share)
        return entry
    with eval_mode(model):
        logits, seq = model(Batch(source))
    log_p = logits[0, : int(seq.lengths[0])].double().log_softmax(-1).cpu().numpy()
    tokens = tokenizer.ids_batch([written], wrap="none")[0].tolist()
    heard = align(log_p, tokens)
    seconds = entry["seconds"] / share / len(log_p)
    entry["tokens"] = [
        {"text": text, "start": round(own.start * seconds, 3), "end": round(own.end * seconds, 3)}
        for text, own in zip(readable_tokens(tokenizer, tokens), heard, strict=True)
    ]
    entry["spoken"] = np.round(1 - np.exp(log_p[: _part(len(log_p), share), 0]), 3).tolist()
    return entry


def _part(vectors: int, share: float) -> int:
    return max(1, round(vectors * share))


def _attention(model: Model, source: Input, ids: Any, dataset: Utterances, share: float) -> tuple[list[AlignedToken], list[list[float]]]:
    """Where the decoder's last layer looked, as it wrote each token."""
    assert dataset.tokenizer is not None
    target = Input(torch.from_numpy(ids[None, :-1].astype(np.int64)), Seq.from_padded([len(ids) - 1])).to(device_of(model))
    with eval_mode(model), record(model) as tape:
        model(Batch(source, target))
    path = [path for path in tape if isinstance(tape.mixers[path], CrossMixer)][-1]
    weights = tape.maps(path)[0].float().mean(0).cpu().numpy()  # (tokens, frames)
    weights = weights[:, : _part(weights.shape[1], share)]
    tokens: list[AlignedToken] = [{"text": text} for text in readable_tokens(dataset.tokenizer, ids[1:])]
    return tokens, np.round(weights / weights.max(1, keepdims=True), 3).tolist()

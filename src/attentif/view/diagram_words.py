"""What the parts of a model are called in its diagram, in French and English."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from attentif.config import Config
from attentif.models.frontends.base import FrontendConfig
from attentif.models.frontends.convolutions import StageConfig
from attentif.models.heads.base import HeadConfig
from attentif.nn.block import ParallelConfig
from attentif.nn.mixer import MixerConfig
from attentif.nn.mixers.bidirectional import BidirectionalConfig
from attentif.nn.norm import NormConfig
from attentif.nn.stack import StackConfig
from attentif.view.words import Text, Words, count, number, plural

Family = Literal["attention", "feed-forward", "recurrence", "convolution", "norm", "input", "output", "other"]


@dataclass(frozen=True, slots=True)
class Label:
    """A box: its family (which colours it), its name, and what its configuration says of it."""

    family: Family
    name: Words
    details: tuple[Words, ...] = ()


MIXERS: dict[str, tuple[Family, Text]] = {
    "attention": ("attention", Text("Auto-attention", "Self-attention")),
    "cross-attention": ("attention", Text("Attention croisée", "Cross-attention")),
    "latent": ("attention", Text("Attention latente", "Latent attention")),
    "linear": ("attention", Text("Attention linéaire", "Linear attention")),
    "performer": ("attention", Text("Attention Performer", "Performer attention")),
    "disentangled": ("attention", Text("Attention démêlée", "Disentangled attention")),
    "linformer": ("attention", Text("Attention Linformer", "Linformer attention")),
    "gated-linear": ("attention", Text("Attention linéaire à portes", "Gated linear attention")),
    "memory": ("attention", Text("Attention et mémoire", "Attention and memory")),
    "reformer": ("attention", Text("Attention par hachage (LSH)", "LSH attention")),
    "chunked": ("attention", Text("Attention par tranches", "Chunked attention")),
    "attentive-recurrence": ("attention", Text("Récurrence avec attention", "Recurrence with attention")),
    "feed-forward": ("feed-forward", Text("Réseau (MLP)", "Feed-forward")),
    "experts": ("feed-forward", Text("Mélange d’experts", "Mixture of experts")),
    "window-mlp": ("feed-forward", Text("MLP sur une fenêtre", "Window MLP")),
    "rwkv-channel": ("feed-forward", Text("RWKV, mélange des canaux", "RWKV channel mix")),
    "rnn": ("recurrence", Text("RNN", "RNN")),
    "lstm": ("recurrence", Text("LSTM", "LSTM")),
    "gru": ("recurrence", Text("GRU", "GRU")),
    "s4-dplr": ("recurrence", Text("Espace d’états S4", "S4 state space")),
    "s4d": ("recurrence", Text("Espace d’états S4D", "S4D state space")),
    "mamba": ("recurrence", Text("Mamba", "Mamba")),
    "mamba2": ("recurrence", Text("Mamba-2", "Mamba-2")),
    "rwkv-time": ("recurrence", Text("RWKV, mélange du temps", "RWKV time mix")),
    "rwkv7-time": ("recurrence", Text("RWKV-7, mélange du temps", "RWKV-7 time mix")),
    "gated-recurrence": ("recurrence", Text("Récurrence linéaire à portes", "Gated linear recurrence")),
    "conv": ("convolution", Text("Convolution", "Convolution")),
    "conv2d": ("convolution", Text("Convolution 2D", "2-D convolution")),
    "conformer-conv": ("convolution", Text("Convolution (Conformer)", "Conformer convolution")),
    "gated-conv": ("convolution", Text("Convolution longue à portes", "Gated long convolution")),
}
NORMS = {"layer": "LayerNorm", "rms": "RMSNorm", "batch": "BatchNorm"}
INPUTS: dict[str, tuple[Text, Text]] = {  # what comes in, and what makes vectors of it
    "tokens": (Text("jetons", "tokens"), Text("Plongement", "Embedding")),
    "patches": (Text("image", "picture"), Text("Pavés d’image", "Patch embedding")),
    "frames": (Text("spectrogramme", "spectrogram"), Text("Trames", "Frame embedding")),
    "series": (Text("série", "series"), Text("Segments de série", "Series embedding")),
    "joined": (Text("texte et image", "text and picture"), Text("Jetons et pavés", "Tokens and patches")),
    "modalities": (Text("image, texte ou son", "picture, text or sound"), Text("Pavés, jetons ou trames", "Patches, tokens or frames")),
    "waves": (Text("son", "waveform"), Text("Convolutions sur l’onde", "Waveform convolutions")),
    "tubes": (Text("vidéo", "video"), Text("Tubes de pavés", "Tube embedding")),
    "convolutions": (Text("image", "picture"), Text("Réseau de convolutions", "Convolutional network")),
}
OUTPUTS: dict[str, tuple[Text, Text]] = {  # the box, and what comes out
    "classify": (Text("Linéaire et softmax", "Linear and softmax"), Text("classe", "class")),
    "language": (Text("Linéaire et softmax", "Linear and softmax"), Text("jeton, à chaque place", "token, at every place")),
    "tokens": (Text("Linéaire et softmax", "Linear and softmax"), Text("étiquette, à chaque place", "label, at every place")),
    "crf": (Text("Linéaire et CRF", "Linear and CRF"), Text("étiquettes", "labels")),
    "ctc": (Text("Linéaire et CTC", "Linear and CTC"), Text("transcription", "transcript")),
    "embed": (Text("Vecteur de la suite", "Vector of the sequence"), Text("vecteur", "vector")),
    "match": (Text("Linéaire, de longueur 1", "Linear, of length 1"), Text("vecteur de l’espace commun", "vector of the shared space")),
    "horizon": (Text("Linéaire", "Linear"), Text("valeurs à venir", "values to come")),
    "span": (Text("Linéaire et softmax", "Linear and softmax"), Text("début et fin de la réponse", "start and end of the answer")),
}
POSITIONS = {
    "sinusoidal": Text("positions sinusoïdales", "sinusoidal positions"),
    "sinusoidal-2d": Text("positions sinusoïdales 2D", "2-D sinusoidal positions"),
    "learned": Text("positions apprises", "learned positions"),
    "learned-2d": Text("positions apprises 2D", "2-D learned positions"),
    "axial": Text("positions axiales", "axial positions"),
    "amplitude": Text("positions : amplitude", "amplitude positions"),
    "binary": Text("positions binaires", "binary positions"),
}
BIASES = {"alibi": Text("biais ALiBi", "ALiBi bias"), "relative": Text("biais de position relative", "relative position bias")}
POOLS = {
    "first": Text("premier jeton", "first token"),
    "last": Text("dernier jeton", "last token"),
    "mean": Text("moyenne", "mean"),
    "max": Text("maximum", "maximum"),
    "attention": Text("moyenne apprise", "attention pooling"),
    "first-mean": Text("premier jeton et moyenne", "first token and mean"),
    "first-two": Text("deux premiers jetons", "first two tokens"),
}


def label_mixer(mixer: MixerConfig) -> Label:
    """The box of a mixer; kinds unknown here (a plug-in's) go by their own name."""
    if isinstance(mixer, BidirectionalConfig):
        inner = label_mixer(mixer.mixer)
        return Label(inner.family, inner.name, (Text("dans les deux sens", "both directions"), *inner.details))
    if isinstance(mixer, ParallelConfig):
        return Label("other", Text("En parallèle", "In parallel"))
    known = MIXERS.get(mixer.kind)
    family, name = known or ("other", mixer.kind)
    return Label(family if known else "other", name, tuple(_details(mixer)))


def label_norm(norm: NormConfig) -> Label:
    return Label("norm", NORMS.get(norm.kind, norm.kind))


def label_frontend(frontend: FrontendConfig) -> tuple[Words, Label]:
    """What comes in, and the box that makes vectors of it."""
    read, name = INPUTS.get(frontend.kind, (frontend.kind, frontend.kind))
    return read, Label("input", name, tuple(_details(frontend)))


def label_head(head: HeadConfig) -> tuple[Label, Words]:
    """Draw the last box and the output."""
    name, answer = OUTPUTS.get(head.kind, (head.kind, ""))
    return Label("output", name, tuple(_details(head))), answer


def label_position(position: Config) -> Words:
    kind = getattr(position, "kind", "")
    return POSITIONS.get(kind, kind)


def describe_stack(stack: StackConfig) -> list[Words]:
    """What holds for all blocks of a stack."""
    said: list[Words] = []
    if stack.bias is not None:
        said.append(BIASES.get(stack.bias.kind, stack.bias.kind))
    if stack.reversible:
        said.append(Text("réversible", "reversible"))
    return said


def _heads(heads: int, config: Config) -> Text:
    keys = getattr(config, "kv_heads", None)
    of = plural(heads, Text("tête", "head"))
    return of if keys in (None, heads) else Text(f"{of.fr}, {keys} pour K et V", f"{of.en}, {keys} for K and V")


def _window(pattern: Any, _: Config) -> Text:
    kinds = {entry.kind for entry in pattern}
    left = next((entry.left for entry in pattern if entry.kind == "window"), None)
    if left is None:
        return Text(f"motif : {', '.join(sorted(kinds))}", f"pattern: {', '.join(sorted(kinds))}")
    more = len(kinds) > 1
    return Text(f"fenêtre de {left}{' et autres' if more else ''}", f"window of {left}{' and others' if more else ''}")


def _experts(experts: int, config: Config) -> Text:
    top = getattr(config, "top_k", 1)
    return Text(f"{top} sur {experts}", f"{top} of {experts}")


# by key of a configuration: what it adds to the box where it is set
DETAILS: dict[str, Callable[[Any, Config], Words]] = {
    "causal": lambda value, _: Text("masquée", "masked") if value is True else "",
    "heads": _heads,
    "experts": _experts,
    "shared": lambda value, _: plural(value, Text("partagé", "shared")) if isinstance(value, int) and value is not True and value else "",
    "cell": lambda value, _: str(value).upper(),
    "score": lambda value, _: Text(f"score : {value}", f"score: {value}"),
    "window": lambda value, _: Text(f"fenêtre de {value}", f"window of {value}"),
    "windows": lambda value, _: Text(f"fenêtres de {', '.join(map(str, value))}", f"windows of {', '.join(map(str, value))}"),
    "kernel": lambda value, _: Text(f"noyau de {value}", f"kernel of {value}") if isinstance(value, int) else "",
    "pattern": _window,
    "rotary": lambda *_: Text("rotations", "rotary"),
    "qk_norm": lambda *_: Text("q et k normalisés", "q/k norm"),
    "softcap": lambda *_: Text("plafond doux", "soft cap"),
    "sinks": lambda value, _: Text("puits d'attention", "attention sinks") if value else "",
    "kv_rank": lambda value, _: Text(f"latent de {value}", f"latent of {value}"),
    "state": lambda value, _: Text(f"état de {value}", f"state of {value}"),
    "peepholes": lambda value, _: Text("à judas", "peepholes") if value else "",
    "features": lambda value, _: Text(f"traits : {value}", f"features: {value}"),
    "hidden": lambda value, _: Text(f"largeur {count(value).fr}", f"hidden {count(value).en}") if value is not True else "",
    "activation": lambda value, config: _activation(value, config),
    "vocab": lambda value, _: Text(f"{count(value).fr} mots", f"vocabulary of {count(value).en}"),
    "size": lambda value, _: Text(f"pavés de {value} × {value}", f"patches of {value} × {value}"),
    "depth": lambda value, _: Text(f"{value} images par tube", f"{value} frames a tube"),
    "patch": lambda value, _: Text(f"segments de {value}", f"patches of {value}") if isinstance(value, int) else "",
    "stages": lambda value, _: ", ".join(f"{s.channels} × {s.size}×{s.size}" for s in value if isinstance(s, StageConfig)),
    "mels": lambda value, _: Text(f"{value} bandes mel", f"{value} mel bands"),
    "class_token": lambda value, _: Text("jeton de classe", "class token") if value else "",
    "distillation_token": lambda value, _: Text("jeton de distillation", "distillation token") if value else "",
    "registers": lambda value, _: plural(value, Text("registre", "register")) if value else "",
    "pool": lambda value, _: POOLS.get(value, value),
    "tied": lambda value, _: Text("poids du plongement", "tied to the embedding") if value else "",
    "classes": lambda value, _: Text(f"{value} classes", f"{value} classes"),
}
ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "gelu-tanh": "GELU (tanh)", "silu": "SiLU", "swiglu": "SwiGLU", "geglu": "GeGLU",
    "gelu-quick": "quick GELU",
    "swiglu-clamped": "SwiGLU (±7)", "geglu-tanh": "GeGLU (tanh)", "reglu": "ReGLU", "glu": "GLU", "tanh": "tanh",
}  # fmt: skip


def _activation(value: str, config: Config) -> Words:
    unused = isinstance(config, HeadConfig) and not (getattr(config, "hidden", False) or getattr(config, "transform", False))
    return "" if unused or value == "none" else ACTIVATIONS.get(value, value)


def _details(config: Config) -> Iterator[Words]:
    for key, write in DETAILS.items():
        value = getattr(config, key, None)
        if value is not None and value != () and (words := write(value, config)):
            yield words


def residual_weight(weight: float) -> Words:
    """The factor on a branch, where it is not 1."""
    return "× ½" if weight == 0.5 else Text(f"× {number(weight, 3).fr}", f"× {number(weight, 3).en}")

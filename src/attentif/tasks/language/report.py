"""The report's part of language models."""

from typing import TypedDict

from attentif.tasks.answers import Evaluation
from attentif.tasks.details import Excerpt as Excerpt
from attentif.tasks.details import details_of
from attentif.tasks.metrics import Slice
from attentif.tasks.report import length_figure
from attentif.view.blocks import Block, CodeBlock, Paragraph, Section, TokensBlock
from attentif.view.words import Text


class Sample(TypedDict):
    prompt: str
    written: str


class LanguageDetails(TypedDict):
    tokens: int
    bytes: int
    by_place: list[Slice]  # loss by place in the window
    excerpt: Excerpt
    samples: list[Sample]


def language_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, LanguageDetails)) is None:
        return []
    sections = [Section(Text("Ce qui surprend le modèle", "What surprises the model"), _surprise(details))]
    if details["samples"]:
        sections.append(Section(Text("Ce que le modèle écrit", "What the model writes"), _samples(details["samples"])))
    return sections


def _surprise(details: LanguageDetails) -> list[Block]:
    about = Text(
        "Un passage du test. Plus un jeton est foncé, moins le modèle l'attendait, en bits : 1 bit, il hésitait entre deux jetons ; "
        "10 bits, entre mille.",
        "A passage of the test. The darker a token, the less the model expected it, in bits: 1 bit, it wavered between two tokens; "
        "10 bits, between a thousand.",
    )
    blocks: list[Block] = [Paragraph(about), TokensBlock(details["excerpt"]["tokens"], details["excerpt"]["bits"], whole=12.0)]
    if len(details["by_place"]) > 1:
        title = Text("Plus le modèle a lu, moins il se trompe ?", "The more it has read, the less it errs?")
        blocks.append(length_figure("loss", details["by_place"], title))
    return blocks


def _samples(samples: list[Sample]) -> list[Block]:
    about = Text(
        "Après un passage du test, le modèle continue (température 0,8).",
        "After a passage of the test, the model goes on (temperature 0.8).",
    )
    blocks: list[Block] = [Paragraph(about)]
    for sample in samples:
        blocks += [
            CodeBlock(sample["prompt"], caption=Text("le début", "the beginning")),
            CodeBlock(sample["written"], caption=Text("la suite", "the rest")),
        ]
    return blocks

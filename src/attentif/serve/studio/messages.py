"""Requests and responses of the studio's own API."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from attentif.inspect import interventions
from attentif.serve.studio.numbers import Numbers

MOST_LETTERS = 20_000
MOST_EXAMPLES = 24
Place = Annotated[int, Field(ge=0, le=100_000)]
Recipe = Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9\-]+$")]
Role = Annotated[str, Field(max_length=40, pattern=r"^[a-z_]+$")]
ModulePath = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9_.\-]*$")]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InputRequest(Closed):
    """One input, at the run's last weights or at those of a kept checkpoint."""

    text: str = Field("", max_length=MOST_LETTERS)
    beside: dict[Role, Annotated[str, Field(max_length=MOST_LETTERS)]] = Field(
        default_factory=dict, max_length=4, description="what is read with the text, by its role: pair, context, target"
    )
    example: int | None = Field(None, ge=0, lt=MOST_EXAMPLES, description="an example of the run's own test split, instead of a text")
    picture: str | None = Field(None, max_length=1_000_000, description="a drawing, as base64 of a PNG, instead of a text")
    file: str | None = Field(None, max_length=1_900_000, description="a sound or a table, as a data URI, instead of a text")
    step: int | None = Field(None, ge=0, description="checkpoint of this step; by default the last weights")


class PartRequest(InputRequest):
    path: ModulePath
    head: Place = 0
    query: Place = 0
    channel: Place = 0
    tile: tuple[Place, Place] | None = Field(None, description="of a long map: first row and column of a square that is sent whole")


class CountsRequest(InputRequest):
    token: Place | None = Field(None, description="the next token whose probability is worked out; by default the likeliest")


class NextRequest(InputRequest):
    ids: list[Place] = Field(default_factory=list, max_length=8192, description="tokens written after the text")


class WriteRequest(NextRequest):
    tokens: int = Field(40, ge=1, le=512, description="tokens to write")
    temperature: float = Field(0.8, ge=0, le=10)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, lt=2**63)


class HeadsOffRequest(Closed):
    kind: Literal["heads"]
    path: ModulePath
    heads: list[Place] = Field(min_length=1, max_length=256)


class PartOffRequest(Closed):
    kind: Literal["part", "residual"]
    path: ModulePath


class Switch(Closed):
    kind: Literal["positions", "unscaled", "mask"]


class Sharpen(Closed):
    kind: Literal["sharpen"]
    factor: float = Field(gt=0, le=100)


class ExpertOffRequest(Closed):
    kind: Literal["expert"]
    path: ModulePath
    expert: Place


class TokenVectorRequest(Closed):
    kind: Literal["vector"]
    place: Place
    word: str | None = Field(None, max_length=200, description="take the vector of this word's first token; none: zeros")


class PatchFrom(Closed):
    kind: Literal["patch"]
    path: ModulePath
    place: Place
    text: str = Field(max_length=MOST_LETTERS)
    place_there: Place


AnyChange = Annotated[
    HeadsOffRequest | PartOffRequest | Switch | Sharpen | ExpertOffRequest | TokenVectorRequest | PatchFrom, Field(discriminator="kind")
]


class ChangeRequest(InputRequest):
    changes: list[AnyChange] = Field(default_factory=list, max_length=64)


class NearestWordsRequest(Closed):
    word: str = Field(min_length=1, max_length=200)
    count: int = Field(12, ge=1, le=100)


class MapRequest(Closed):
    words: list[Annotated[str, Field(max_length=200)]] = Field(
        default_factory=list, max_length=200, description="the plane is that in which these differ most; by default the frequent words"
    )
    count: int = Field(200, ge=2, le=1000, description="frequent words that are shown too")


class BothRequest(Closed):
    """Two runs on the rows of a file of the opened folder, or of the first one's own test split."""

    first: str = Field(max_length=200)
    second: str = Field(max_length=200)
    file: int | None = Field(None, ge=0, description="number of a file of the opened data folder")
    rows: int = Field(500, ge=1, le=5000, description="rows at most")


class LabRequest(Closed):
    name: str = Field(max_length=5, pattern=r"^L[0-9]{1,3}$", description="an experiment of the laboratory")


class TrainRequest(Closed):
    recipe: Recipe
    file: int | None = Field(None, ge=0, description="number of a file of the opened data folder")
    model: str | None = Field(None, max_length=100, pattern=r"^[a-z0-9.\-]+$")
    minutes: float = Field(1.0, gt=0, le=24 * 60)
    name: str | None = Field(None, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-]*$")


# ---------------------------------------------------------------------------------------------------------------- responses


class AnswerOutcome(BaseModel):
    """What a run answers: a distribution over a few names, or a text, or both."""

    kind: Literal["classes", "next", "text", "hidden", "series"]
    names: list[str] = []
    probabilities: list[float] = []
    text: str = ""
    probability: float | None = None  # of the text, where the task gives one
    details: dict[str, Any] = {}


class WordEffect(BaseModel):
    """One word of the text, and how much less probable the answer is without it."""

    word: str
    before: str  # what stands between the word before and this one
    effect: float | None


class InputAnswer(BaseModel):
    outcome: AnswerOutcome
    words: list[WordEffect] = []
    note: str = ""
    seconds: float = 0.0  # of the outcome alone


class ExampleRows(BaseModel):
    """Rows of the run's own test split, by role; files are named, not sent."""

    reads: str
    beside: list[str]
    rows: list[dict[str, str]]


class Tokens(BaseModel):
    tokens: list[str]
    source: list[str] | None
    spans: list[tuple[int, int] | None] | None = None  # characters of the text that each token read covers; none: a special token
    grid: list[int] | None
    first: int
    heads: dict[str, int]
    maps: list[str]  # parts whose weights can be shown


class MapWeights(BaseModel):
    """Weights (heads, queries, keys); of a long text only the largest of each query: `keys` are their places."""

    path: str
    rows: list[str]
    columns: list[str]
    weights: Numbers
    keys: Numbers | None = None
    tile: tuple[int, int] | None = None  # first row and column of what was sent
    signed: bool = False


class Lens(BaseModel):
    """The likeliest answers after each sublayer, (sublayers, places, LENS)."""

    paths: list[str]
    tokens: list[str]
    names: list[list[list[str]]]
    probabilities: list[list[list[float]]]


class PartView(BaseModel):
    """Numbers of one part; which ones depends on its kind."""

    path: str
    kind: str
    tokens: list[str]
    keys: list[str] | None = None
    values: dict[str, Numbers] = {}
    facts: dict[str, float] = {}
    names: dict[str, list[str]] = {}


class OrderContext(BaseModel):
    """What was counted after one context."""

    context: list[str]
    total: int
    names: list[str]
    counts: list[int]


class OrderShare(BaseModel):
    """Kneser-Ney at one order: max(count − discount, 0) / total + gamma · lower = probability."""

    context: list[str]
    count: int
    total: int
    discount: float
    gamma: float
    lower: float
    probability: float


class Counts(BaseModel):
    """What an n-gram model has counted after a text, the likeliest next tokens, and how one of them comes by its probability."""

    orders: list[OrderContext]
    next: list[int]
    names: list[str]
    probabilities: list[float]
    token: int
    token_name: str
    steps: list[OrderShare]


class Next(BaseModel):
    ids: list[int]  # of the prompt and what was written
    tokens: list[str]
    logits: Numbers  # (V,): exact, for any temperature
    top: list[int]
    names: list[str]


class Changed(BaseModel):
    before: AnswerOutcome
    after: AnswerOutcome
    measure: list[float]  # log-probability of the original answer, before and after


class HeadEffectRow(BaseModel):
    path: str
    head: int
    effect: float
    weight: float | None  # mean over queries of its largest weight: how sharply it looks


def to_intervention(change: Any, other: Any, token_of: Any) -> interventions.Change:
    """The change of the model that a request asks for; `other(text)` reads another text, `token_of(word)` finds a token."""
    match change:
        case HeadsOffRequest():
            return interventions.HeadsOff(change.path, tuple(change.heads))
        case PartOffRequest(kind="part"):
            return interventions.PartOff(change.path)
        case PartOffRequest():
            return interventions.ResidualOff(change.path or None)
        case Switch(kind="positions"):
            return interventions.PositionsOff()
        case Switch(kind="unscaled"):
            return interventions.AttentionScale(unscaled=True)
        case Switch():
            return interventions.MaskOff()
        case Sharpen():
            return interventions.AttentionScale(change.factor)
        case ExpertOffRequest():
            return interventions.ExpertOff(change.path, change.expert)
        case TokenVectorRequest():
            return interventions.TokenVector(change.place, None if change.word is None else token_of(change.word))
        case PatchFrom():
            return interventions.Patch(change.path, change.place, other(change.text), change.place_there)
    raise AssertionError(change)

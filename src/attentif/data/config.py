"""Configuration of the data."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from attentif.config import Config, did_you_mean
from attentif.data.file_format import check_encoding, describe_file

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


# columns without names go by their number, which a command line makes an integer of: data.columns.tags=2
ColumnName = Annotated[str, BeforeValidator(lambda given: str(given) if type(given) is int else given)]


class DataConfig(Config):
    """A built-in set by its `name`, or files: JSONL, CSV, TSV, Parquet or plain text, gzipped or not."""

    name: str | None = Field(None, description="a built-in set (`attentif list data`); empty where files are given")
    train: str | list[str] | None = Field(None, description="file or files of training examples")
    valid: str | list[str] | None = Field(None, description="validation file or files; by default split off `train`")
    test: str | list[str] | None = Field(None, description="test file or files; by default split off `train`")
    target: str | None = Field(None, description="translation: file with the target lines of `train`")
    valid_target: str | None = Field(None, description="target lines of `valid`")
    test_target: str | None = Field(None, description="target lines of `test`")
    text: str | None = Field(None, description="column of texts; by default detected")
    label: str | None = Field(None, description="column of labels; by default detected")
    pair: str | None = Field(None, description="column of second texts")
    source: str | None = Field(None, description="translation: source column")
    target_column: str | None = Field(None, description="translation: target column")
    columns: dict[str, ColumnName] = Field({}, description='other columns by role: columns = { audio = "wav", date = "jour" }')
    pattern: str = Field(
        "", description='folders of sounds: pattern of the file names, "{text}_{speaker}_{take}"; its fields become columns'
    )
    group: str | None = Field(
        None, description='name of a column (an author, a series) whose rows stay together when `train` is cut; "": none, not even a guess'
    )
    valid_fraction: float = Field(0.1, gt=0, lt=1, description="share of `train` used for validation if `valid` is not given")
    test_fraction: float = Field(0.1, gt=0, lt=1, description="share of `train` used as test set if `test` is not given")
    options: dict[str, int | float | str] = Field(
        {}, description="options of a generated set, such as its size (see `attentif list data`): options.length = 256"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="random seed of the splits and of generated sets")
    limit: int = Field(0, ge=0, description="number of training examples to use, stratified by class (0: all)")
    limit_seed: int | None = Field(None, ge=0, lt=2**63, description="random seed of `limit`; by default `seed`")
    skip_bad: int = Field(0, ge=0, description="skip up to this many unusable rows")
    encoding: str | None = Field(None, description="encoding of the files, if not UTF-8: cp1252 (Windows, older Excel), latin-1, utf-16")
    delimiter: Literal[",", ";", "\t", "|"] | None = Field(None, description="what separates the fields of CSV files; by default found out")
    normalise_labels: bool = Field(False, description='merge labels that differ only in case or spaces: "Positif" and "positif "')

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, given: str | None) -> str | None:
        return check_encoding(given)

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.name:
            self._check_builtin()
        elif not self.train:
            raise ValueError('give `name`, a built-in set ("reviews"), or `train`, a file')
        elif self.options:
            raise ValueError("options: go with a built-in set (`name`), not with files")
        for split in ("valid", "test"):
            if self.target and self.files(split) and not self.target_file(split):
                raise ValueError(f"{split}_target: `{split}` needs one, as `train` has `target`")
            if self.target_file(split) and not (self.files(split) and self.target):
                raise ValueError(f"{split}_target: goes with `{split}` and `target`")
        if self.target and len(self.files("train")) != 1:
            raise ValueError("target: goes with one `train` file, line by line")
        if self.valid_fraction + self.test_fraction >= 1:
            raise ValueError("valid_fraction and test_fraction leave nothing to train on")
        return self

    def _check_builtin(self) -> None:
        from attentif.data.builtin import BUILTIN  # the generators' word lists are rarely needed

        if self.name not in BUILTIN:
            known = ", ".join(BUILTIN)
            raise ValueError(f"name: no built-in set is called {self.name!r}{did_you_mean(str(self.name), BUILTIN)} (there are {known})")
        fixed = ("train", "valid", "test", "target", "valid_target", "test_target")
        columns = ("text", "label", "pair", "source", "target_column", "columns", "group")
        if given := [key for key in (*fixed, *columns) if getattr(self, key)]:
            raise ValueError(f"{given[0]}: goes with files, but `name` asks for the built-in set {self.name!r}; give one of them")
        if self.options:
            BUILTIN[self.name].with_options(self.options)

    def files(self, split: Split) -> list[Path]:
        """The files of a split; none where it is cut from `train`."""
        given = getattr(self, split)
        return [
            describe_file(Path(file), self.encoding, self.delimiter)
            for file in ([given] if isinstance(given, str) else given or [])
            if file
        ]

    def target_file(self, split: Split) -> Path | None:
        given = self.target if split == "train" else getattr(self, f"{split}_target")
        return describe_file(Path(given), self.encoding) if given else None

    def column(self, role: str) -> str | None:
        """The column configured by name, if any."""
        given = getattr(self, "target_column" if role == "target" else role, None) or self.columns.get(role)
        return str(given) if given else None

    def fraction(self, split: Split) -> float:
        """The share of `train` that is kept for this split."""
        return 0.0 if self.files(split) else float(getattr(self, f"{split}_fraction"))

"""Configuration: closed, typed, in layers; every refusal says where and what to do."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator
from pydantic_core import PydanticUndefined

import attentif.config
from attentif.config import (
    Config,
    Document,
    Layer,
    OneOf,
    Registry,
    did_you_mean,
    merge,
    migrate_values,
    override,
    read_toml,
    to_toml,
)
from attentif.errors import ConfigError
from attentif.models import ModelConfig, preset_names, resolve
from attentif.training.config import RunConfig

# ----------------------------------------------------------------------------------------- a small family to play with


class Engine(Config):
    kind: str
    power: int = Field(10, gt=0, description="in horsepower")


ENGINES: Registry[Engine] = Registry("motor")


@ENGINES.register
class Petrol(Engine):
    kind: Literal["petrol"] = Field("petrol", description="burns")
    tank: float = Field(40.0, description="litres")


@ENGINES.register
class Electric(Engine):
    kind: Literal["electric"] = Field("electric", description="hums")
    battery: int = Field(description="kilowatt hours")


class Seat(Config):
    colour: str = Field("red", description="of the cloth")
    heated: bool = Field(False, description="in winter")


class Car(Config):
    name: str = Field("deux chevaux", description="what it is called")
    doors: Literal[2, 4] = Field(2, description="how many open")
    speed: float = Field(90.0, description="at most")
    owner: str | None = Field(None, description="if somebody has it")
    engine: Annotated[Engine, OneOf(ENGINES)] = Field(Petrol(), description="what moves it")
    spare: Annotated[Engine, OneOf(ENGINES)] | None = Field(None, description="another")
    seats: dict[str, Seat] = Field({}, description="by place")
    extras: Annotated[tuple[Seat, ...], Field(strict=False)] = Field((), description="in the boot")
    stops: Annotated[tuple[int, ...], Field(strict=False)] = Field((), description="on the way")

    @model_validator(mode="after")
    def _fast_enough(self) -> "Car":
        if self.speed > 100 and self.doors == 4:
            raise ValueError("four doors are too heavy for this speed")
        return self


def built(text: str, *words: str) -> Car:
    return Document([Layer(tomllib.loads(text), "car.toml", text), *map(override, words)]).build(Car)


def refusal(text: str, *words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        built(text, *words)
    assert caught.value.exit_code == 2
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------ refusals


def test_an_unknown_key_names_file_line_path_and_the_likely_word() -> None:
    assert refusal('name = "x"\nspede = 3.0\n') == "car.toml:2: spede: unknown key; did you mean 'speed'?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[engine]\nkind = "petrol"\n\ntnak = 3.0\n', "car.toml:4: engine.tnak: unknown key; did you mean 'tank'?"),
        ('spare = { kind = "petrol", tnak = 1.0 }\n', "car.toml:1: spare.tnak: unknown key; did you mean 'tank'?"),
        ("[seats.front]\ncolor = 'blue'\n", "car.toml:2: seats.front.color: unknown key; did you mean 'colour'?"),
        ("[[extras]]\n[[extras]]\nheatd = true\n", "car.toml:3: extras.1.heatd: unknown key; did you mean 'heated'?"),
        ("zzzzzz = 1\n", "car.toml:1: zzzzzz: unknown key"),
    ],
)
def test_unknown_keys_are_found_wherever_they_hide(text: str, expected: str) -> None:
    assert refusal(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\nspeed = 'fast'\n", "car.toml:2: speed: must be a valid number, not 'fast'"),
        ("doors = 3\n", "car.toml:1: doors: must be 2 or 4, not 3"),
        ("name = 3\n", "car.toml:1: name: must be a valid string, not 3"),
        ("[engine]\nkind='petrol'\npower = 0\n", "car.toml:3: engine.power: must be greater than 0, not 0"),
        ("[engine]\nkind='petrol'\npower = 2.0\n", "car.toml:3: engine.power: must be a whole number, not 2.0"),
        ("[engine]\nkind='petrol'\npower = true\n", "car.toml:3: engine.power: must be a whole number, not True"),
        ("[engine]\nkind = 'electric'\n", "car.toml:1: engine.battery: a value is required here"),
        ("[engine]\nkind = 'eletric'\n", "car.toml:1: engine: no motor is called 'eletric'; did you mean 'electric'?"),
        ("[engine]\npower = 3\n", "car.toml:1: engine: a motor is a table with a `kind`, one of: electric, petrol"),
        ("engine = 'petrol'\n", "car.toml:1: engine: a motor is a table with a `kind`, one of: electric, petrol"),
        ("stops = [1, 2, 'three']\n", "car.toml:1: stops.2: must be a whole number, not 'three'"),
    ],
)
def test_wrong_values_say_what_was_wanted(text: str, expected: str) -> None:
    assert refusal(text) == expected


def test_a_contradiction_is_said_in_its_own_words() -> None:
    assert refusal("speed = 120.0\ndoors = 4\n") == "car.toml: four doors are too heavy for this speed"


def test_several_problems_are_said_at_once_and_the_first_gives_the_place() -> None:
    message = refusal("speed = 'fast'\ndoors = 3\nx = 1\n")
    assert message.startswith("car.toml:2: doors: must be 2 or 4")
    assert "and 2 more: speed: must be" in message
    assert "x: unknown key" in message


def test_a_wrong_option_is_blamed_on_the_option_not_on_the_file() -> None:
    assert refusal("speed = 3.0\n", "speed=fast") == "option 'speed=fast': speed: must be a valid number, not 'fast'"
    assert refusal("speed = 'fast'\n", "doors=4").startswith("car.toml:1: speed")


def test_a_value_of_another_family_is_refused() -> None:
    with pytest.raises(Exception, match=r"motor.*table"):
        Car(engine=Seat())  # type: ignore[arg-type]


def test_a_configuration_is_frozen_and_changed_makes_a_checked_copy() -> None:
    car = built("speed = 80.0\n[engine]\nkind = 'electric'\nbattery = 3\n")
    with pytest.raises(Exception, match="frozen"):
        car.speed = 3.0  # type: ignore[misc]
    other = car.replace(doors=4)
    assert (other.doors, other.engine, car.doors) == (4, car.engine, 2)
    with pytest.raises(Exception, match="too heavy"):
        car.replace(doors=4, speed=200.0)


def test_a_name_is_registered_by_one_class_only() -> None:
    with pytest.raises(ConfigError, match=r"'petrol'.*Petrol"):

        @ENGINES.register
        class Diesel(Engine):
            kind: Literal["petrol"] = "petrol"

    assert list(ENGINES) == ["electric", "petrol"]
    assert ENGINES["petrol"] is Petrol


def test_did_you_mean_stays_silent_when_nothing_is_close() -> None:
    assert did_you_mean("encoder", ["decoder", "head"]) == "; did you mean 'decoder'?"
    assert did_you_mean("xyz", ["decoder", "head"]) == ""


# -------------------------------------------------------------------------------------------------------------- layers


def test_the_last_layer_wins_table_by_table() -> None:
    car = built("speed = 50.0\n[seats.front]\ncolour = 'blue'\n", "speed=60", "seats.front.heated=true", "owner=Zoé")
    assert (car.speed, car.owner) == (60.0, "Zoé")
    assert car.seats["front"] == Seat(colour="blue", heated=True)


def test_an_option_that_switches_the_kind_starts_afresh() -> None:
    text = "[engine]\nkind = 'petrol'\ntank = 30.0\npower = 5\n"
    assert built(text, "engine.kind=petrol", "engine.power=6").engine == Petrol(tank=30.0, power=6)
    switched = built(text, "engine={kind='electric', battery=7}").engine
    assert switched == Electric(battery=7, power=10)


def test_a_switched_kind_can_be_completed_by_further_options() -> None:
    text = "[engine]\nkind = 'petrol'\ntank = 30.0\n"
    assert built(text, "engine.kind=electric", "engine.battery=7").engine == Electric(battery=7)


def test_items_of_a_list_are_changed_by_their_number() -> None:
    text = "[[extras]]\ncolour = 'blue'\n[[extras]]\ncolour = 'green'\n"
    assert built(text, "extras.1.heated=true").extras == (Seat(colour="blue"), Seat(colour="green", heated=True))
    assert built("stops = [1, 2, 3]", "stops.0=9").stops == (9, 2, 3)
    assert refusal(text, "extras.2.heated=true") == "option 'extras.2.heated=true': extras.2: there are only 2 items"
    assert refusal(text, "extras.1.heatd=true") == "option 'extras.1.heatd=true': extras.1.heatd: unknown key; did you mean 'heated'?"


def test_an_item_that_switches_its_kind_starts_afresh() -> None:
    below = {"engines": [{"kind": "petrol", "tank": 1.0}]}
    assert merge(below, {"engines": {"0": {"kind": "electric"}}}) == {"engines": [{"kind": "electric"}]}
    assert merge(below, {"engines": {"0": {"tank": 2.0}}}) == {"engines": [{"kind": "petrol", "tank": 2.0}]}


def test_merging_leaves_its_arguments_alone() -> None:
    below: dict[str, Any] = {"a": {"b": 1}, "c": [1, 2]}
    merge(below, {"a": {"b": 2}, "c": {"0": 5}})
    assert below == {"a": {"b": 1}, "c": [1, 2]}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a.b=3", 3),
        ("a.b=3e-4", 3e-4),
        ("a.b=true", True),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b={x = 1}", {"x": 1}),
        ("a.b='3'", "3"),
        ("a.b=plain words", "plain words"),
        ("a.b=C:\\texts\\avis.csv", "C:\\texts\\avis.csv"),
        ("a.b=x=y", "x=y"),
        ("a.b=", ""),
        ("a.b=1\nc = 2", "1\nc = 2"),
    ],
)
def test_options_are_read_as_toml_and_as_text_where_they_are_not(word: str, value: object) -> None:
    assert override(word).values == {"a": {"b": value}}


@pytest.mark.parametrize("word", ["", "speed", "=3", "a..b=3", ".a=3"])
def test_a_word_that_is_no_option_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        override(word)


# --------------------------------------------------------------------------------------------------------------- files


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path: Path) -> None:
    broken, latin = tmp_path / "broken.toml", tmp_path / "latin.toml"
    broken.write_text("a = 1\nb = = 2\n")
    latin.write_bytes("a = 1\nb = 'é'\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"missing.toml: no such file$"):
        read_toml(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"is a directory"):
        read_toml(tmp_path)
    with pytest.raises(ConfigError, match=r"not a directory"):
        read_toml(broken / "inside.toml")
    with pytest.raises(ConfigError, match=r"broken.toml:2: is not valid TOML"):
        read_toml(broken)
    with pytest.raises(ConfigError, match=r"latin.toml:2: is not UTF-8"):
        read_toml(latin)


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbfa = 1\r\n[t]\r\nb = 2\r\n")
    layer = read_toml(file)
    assert layer.values == {"a": 1, "t": {"b": 2}}
    assert layer.place(("t", "b")) == (str(file), 3)


def test_the_opening_comment_says_what_a_file_is() -> None:
    assert Layer({}, "x", "# One.\n# Two.\n\n# not this\na = 1\n").about == "One. Two."


# ----------------------------------------------------------------------------------------------------------- migration


def test_older_versions_are_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(attentif.config, "VERSION", 3)
    steps = {1: lambda v: {**v, "speed": v["velocity"]}, 2: lambda v: {key: value for key, value in v.items() if key != "velocity"}}
    monkeypatch.setattr(attentif.config, "MIGRATIONS", steps)
    file = tmp_path / "old.toml"
    file.write_text("version = 1\nvelocity = 70.0\n")
    assert read_toml(file).values == {"version": 3, "speed": 70.0}
    assert migrate_values({"version": 2, "velocity": 1, "speed": 2}) == {"version": 3, "speed": 2}
    assert migrate_values({"speed": 2}) == {"speed": 2}  # without a version it is of today


def test_a_version_with_no_way_forward_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attentif.config, "VERSION", 3)
    with pytest.raises(ConfigError, match="version 1"):
        migrate_values({"version": 1})


@pytest.mark.parametrize(("version", "message"), [("99", "newer than this Attentif"), ("'two'", "whole number"), ("true", "whole number")])
def test_versions_from_the_future_and_nonsense_are_refused_with_their_line(tmp_path: Path, version: str, message: str) -> None:
    file = tmp_path / "new.toml"
    file.write_text(f"# ours\nversion = {version}\n")
    with pytest.raises(ConfigError, match=rf"new.toml:2: .*{message}"):
        read_toml(file)


def test_a_models_own_version_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="version"):
        resolve({"base": "encoder-tiny", "version": 2})


# ------------------------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("comments", [False, True])
def test_a_configuration_survives_being_written(comments: bool) -> None:
    car = Car(
        name='say "hi"\n\\ é',
        engine=Electric(battery=3),
        spare=Petrol(),
        seats={"front": Seat(heated=True), "far left": Seat()},
        extras=(Seat(), Seat(colour="blue")),
        stops=(1, 2),
    )
    written = to_toml(car, comments=comments, header="A car.\n\nOf mine.")
    assert written.startswith("# A car.\n#\n# Of mine.\n")
    assert built(written) == car


def test_comments_give_meaning_and_default_of_every_key() -> None:
    lines = to_toml(Car(), comments=True).splitlines()
    assert "speed = 90.0  # at most (default: 90.0)" in lines
    assert "# owner =  # if somebody has it" in lines
    assert "tank = 40.0  # litres (default: 40.0)" in lines


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("comments", [False, True])
def test_every_preset_survives_being_written(name: str, comments: bool) -> None:
    config = resolve({"base": name})
    written = to_toml(config, comments=comments)
    values = tomllib.loads(written)
    assert Document([Layer(values, "written", written)]).build(ModelConfig) == config


# --------------------------------------------------------------------------------------------- every configuration there is


def every_config(cls: type[Config] = Config) -> Iterator[type[Config]]:
    for child in cls.__subclasses__():
        if child.__module__.startswith("attentif."):
            yield from every_config(child)
            kind = child.model_fields.get("kind")
            if kind is None or not kind.is_required():  # a base class has no kind of its own
                yield child


CONFIGS = sorted(set(every_config()), key=lambda cls: (cls.__module__, cls.__qualname__))


def test_the_whole_family_was_found() -> None:
    assert {ModelConfig, RunConfig} <= set(CONFIGS)
    assert len(CONFIGS) > 30


@pytest.mark.parametrize("cls", CONFIGS, ids=lambda cls: cls.__name__)
def test_every_key_says_what_it_means_in_one_line(cls: type[Config]) -> None:
    for name, field in cls.model_fields.items():
        assert field.description, f"{cls.__name__}.{name} has no description"
        assert "\n" not in field.description


@pytest.mark.parametrize("cls", CONFIGS, ids=lambda cls: cls.__name__)
def test_what_may_be_none_is_none_by_default(cls: type[Config]) -> None:
    """TOML has no null: a None that was not the default could not be written down."""
    for name, field in cls.model_fields.items():
        optional = type(None) in getattr(field.annotation, "__args__", ())
        assert not optional or field.default in (None, PydanticUndefined), f"{cls.__name__}.{name}"

import tomllib

import pytest
from pydantic import ValidationError

from attentif.config import Document, Layer, to_toml
from attentif.errors import ConfigError
from attentif.training.config import RunConfig, TrainConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "how long to train"),
        ({"steps": 1, "warmup": 1.5}, "write 2 for steps"),
        ({"steps": 1, "schedule": "inverse-sqrt", "warmup": 0}, "needs one"),
        ({"steps": 1, "betas": (0.9, 1.0)}, "between 0 and 1"),
        ({"steps": 1, "lr": 0.0}, "greater than 0"),
        ({"steps": 1, "optimizer": "sgd"}, "adamw"),
    ],
)
def test_settings_that_cannot_be_trained_with_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        TrainConfig(**values)


def test_written_settings_are_read_back_as_they_were():
    config = TrainConfig(epochs=2, warmup=100, eval_every=0.5, clip=float("inf"), betas=(0.9, 0.95))
    assert TrainConfig(**tomllib.loads(to_toml(config))) == config


def test_every_key_says_what_it_means():
    for config in (TrainConfig, RunConfig):
        assert all(field.description for field in config.model_fields.values())


def test_an_unknown_training_key_is_named():
    with pytest.raises(ConfigError, match=r"learning_rate: unknown key"):
        Document([Layer({"steps": 1, "learning_rate": 0.1}, "test")]).build(TrainConfig)

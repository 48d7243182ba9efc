import pytest

from attentif.errors import LONGEST, AttentifError, ConfigError, DataError, refuse_damaged, within


@pytest.mark.parametrize("unsafe", ["\x1b[31m", "\x07", "\r", "\x9b", "\x7f", "\u202e", "\u2066", "\u2028", "\udc80", "\0"])
def test_no_message_carries_characters_that_drive_a_terminal(unsafe):
    error = DataError(f"the label {unsafe}x is unknown", file=f"a{unsafe}.csv", line=3)
    for text in (str(error), error.message):
        assert unsafe[0] not in text
        text.encode()
    assert "\\" in error.message


def test_accents_no_break_spaces_and_backslashes_stay_as_they_are():
    message = "« été » : 1\u00a0234\u202f567, C:\\temp, 漢字"
    assert str(DataError(message)) == message


def test_a_long_value_is_cut_and_the_way_out_kept():
    error = DataError(f"the label {'a' * 10_000_000} is unknown; name it: --label NAME", file="a.csv")
    assert len(str(error)) < LONGEST + 100
    assert str(error).startswith("a.csv: the label a")
    assert str(error).endswith("--label NAME")


def test_an_error_that_is_raised_again_is_escaped_once():
    with pytest.raises(ConfigError) as caught, within("encoder."):
        raise ConfigError("no \x1b")
    assert caught.value.message == "encoder.no \\x1b"


@pytest.mark.parametrize("fault", [ValueError("odd\nbytes"), RuntimeError(), KeyError("x"), MemoryError(), OverflowError("far")])
def test_what_a_decoder_raises_becomes_one_line_with_the_file(fault):
    with pytest.raises(DataError, match=r"a\.npz") as caught, refuse_damaged("a.npz", "npz file"):
        raise fault
    assert "\n" not in str(caught.value)


def test_a_decoder_leaves_errors_for_the_user_alone():
    own = AttentifError("said already")
    with pytest.raises(AttentifError) as caught, refuse_damaged("a.npz", "npz file"):
        raise own
    assert caught.value is own

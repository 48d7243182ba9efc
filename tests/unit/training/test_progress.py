import io

from attentif.training import progress
from attentif.training.progress import Bar, Lines, Silent, Status, clock, display

STATUS = Status(step=3, total=40, loss=0.5, tokens_per_second=12_345.6, padding=0.031, left=75)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_display_suits_the_place():
    assert isinstance(display(machine=True), Silent)
    assert isinstance(display(stream=io.StringIO()), Lines)
    assert isinstance(display(stream=Terminal()), Bar)


def test_a_log_gets_plain_lines_now_and_then(monkeypatch):
    stream = io.StringIO()
    lines = Lines(stream)
    lines.show(STATUS)
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress, "SILENCE", 0.0)
    lines.show(STATUS)
    lines.work("evaluate", 1, 2)
    lines.say("done")
    assert stream.getvalue() == "step 3/40 · loss 0.5000 · 12 346 tokens/s · padding 3.1% · 1:15 left\nevaluate 50%\ndone\n"


def on_terminal(monkeypatch, *actions):
    """What is written when these are called; closing draws the line a last time and gives the cursor back."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    bar = Bar(stream)
    for action in actions:
        action(bar)
    bar.close()
    return stream.getvalue()


def test_a_terminal_gets_one_line_that_moves(monkeypatch):
    assert "3/40 loss 0.5000" in on_terminal(monkeypatch, lambda bar: bar.show(STATUS))
    assert "evaluate" in on_terminal(monkeypatch, lambda bar: bar.show(STATUS), lambda bar: bar.work("evaluate", 1, 2))


def test_work_keeps_its_place_on_the_bar_while_it_takes_long(monkeypatch):
    written = on_terminal(monkeypatch, lambda bar: bar.work("predict", 64, 1000), lambda bar: bar.wait("predict", 3.2))
    assert "predict ... 3 s" in written
    assert written.rindex("64/1000") > written.rindex("3 s")


def test_nothing_is_counted_where_there_is_nothing_to_count(monkeypatch):
    written = on_terminal(monkeypatch, lambda bar: bar.work("evaluate", 2, 2), lambda bar: bar.wait("counting rows", 2.1))
    assert "counting rows ... 2 s" in written
    assert "0/0" not in written


def test_lines_stay_above_it_and_the_cursor_comes_back(monkeypatch):
    written = on_terminal(monkeypatch, lambda bar: bar.show(STATUS), lambda bar: bar.say("[a] line that stays"))
    assert "[a] line that stays\n" in written
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_time_is_written_as_a_clock():
    assert [clock(seconds) for seconds in (0, 59.6, 3599, 3661)] == ["0:00", "1:00", "59:59", "1:01:01"]

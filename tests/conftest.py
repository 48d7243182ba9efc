"""What every test takes for granted."""

import signal


def pytest_configure() -> None:
    """Ctrl-C is heard: the jobs of a shell's background ignore it, and so would the commands that tests start there."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

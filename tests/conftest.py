"""What every test takes for granted."""

import os
import signal

from attentif.kernels.jit_cache import open_folder


def pytest_configure() -> None:
    """Compiled kernels are looked for where every run finds them, wherever a test keeps what it caches; messages are English.

    Ctrl-C is heard: the jobs of a shell's background ignore it, and so would the commands that tests start there.
    """
    open_folder()
    os.environ["ATTENTIF_LANG"] = "en"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

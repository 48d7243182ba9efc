import pytest

import attentif.nn.sparse


@pytest.fixture(autouse=True)
def no_row_is_too_short_for_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the contract are a few dozen tokens: where a pattern has a block form, it is the one that is tried."""
    monkeypatch.setattr(attentif.nn.sparse, "SHORTEST", 0)

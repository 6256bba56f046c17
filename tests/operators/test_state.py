"""The log of a window."""

from __future__ import annotations

import pytest

from tests.operators.one_site import found, hosted, join_of, push, ranged, rows
from thalweg.errors import UserError
from thalweg.operators import state
from thalweg.operators.state import Ledger, MemoryStore


def test_long_windows_of_small_batches_have_few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FAN", 3)
    host = hosted(join_of((ranged("x", "s", size=1000), ranged("y", "t", size=1000)), buckets=1))
    for step in range(100):
        push(host, {"s": rows((step, "a", step)), "t": rows((step, f"b{step}", step))})
        assert all(len(store) <= 1 + 2 * (4 * 3 + 10) for store in host.stores.values())
    host.forget()
    push(host, {"t": rows((100, "a", 100))})
    assert found(host, "x", "y") == [(i, 100) for i in range(100)]


def test_the_state_of_another_version_is_refused() -> None:
    store = MemoryStore({0: b'{"next":1,"of":{}}'})
    with pytest.raises(UserError, match="another version"):
        Ledger(store)

"""The log of a window."""

from __future__ import annotations

import pyarrow as pa
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


def test_an_entry_stays_until_the_last_operator_that_has_it_removes_it() -> None:
    store = MemoryStore()
    ledger = Ledger(store)
    tuples = pa.record_batch({"n": pa.array([1, 2, 3])})
    key = ledger.page("keeper").put(tuples)
    for _ in range(2):  # two inputs of one join
        ledger.page("join").share(key)
    ledger.save()
    ledger = Ledger(store)
    ledger.page("join").remove(key)
    ledger.page("keeper").remove(key)
    assert ledger.page("join").fetch(key).equals(tuples)
    ledger.retain([])
    ledger.save()
    assert key not in store


def test_the_state_of_another_version_is_refused() -> None:
    store = MemoryStore({0: b'{"next":1,"of":{}}'})
    with pytest.raises(UserError, match="another version"):
        Ledger(store)

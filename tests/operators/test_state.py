"""The log of a window."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.operators.one_site import PAIR, found, hosted, join_of, push, ranged, rows
from thalweg.errors import UserError
from thalweg.operators import memo, state
from thalweg.operators.state import Ledger, MemoryStore
from thalweg.query.model import Input, Window, WindowKind
from thalweg.simulate.host import SimulatedHost


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


def segments(host: SimulatedHost) -> dict[int, int]:
    """The entries of all windows, and their bytes."""
    return {k: size for k, size, own in entries(host) if own == "segments"}


def tails(host: SimulatedHost) -> dict[int, int]:
    """The entries of what counts the rows of windows, and their bytes."""
    return {k: size for k, size, own in entries(host) if own.startswith("tail.")}


def entries(host: SimulatedHost) -> Iterator[tuple[int, int, str]]:
    """The entries of all operators, with their bytes and what they are of."""
    for store in host.stores.values():
        for said in json.loads(store[0])["of"].values():
            record = said["record"]
            of = {"segments": [s[0] for s in record.get("segments", ())], **record.get("tables", {})}
            yield from ((key, len(store[key]), name) for name, keys in of.items() for key in keys)


@pytest.mark.parametrize("window", [Window(WindowKind.ROWS, 1, by=("k",)), Window(WindowKind.ROWS, 1000)])
def test_a_window_of_rows_is_not_written_anew_in_each_batch(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "STALE", 2)
    monkeypatch.setattr(memo, "SMALL", 0)
    host = hosted(join_of((Input("x", "s", window), ranged("y", "t", size=0)), buckets=1, columns=PAIR))
    latest = {k: k for k in range(1000)}
    every = list(latest.items())
    push(host, {"s": rows(*((0, k, 0, k) for k in latest), columns=PAIR)})
    known, written, counting, counted = {}, [], tails(host), []
    for step in range(1, 151):
        news = {(7 * step + n) % 1000: 1000 * step + n for n in range(10)}
        latest |= news
        every += news.items()
        host.batch({s: rows(*((step, k, 0, i) for k, i in news.items()), columns=PAIR) for s in ("s", "t")})
        now = segments(host)
        written.append(sum(size for key, size in now.items() if key not in known))
        known = now
        now = tails(host)
        counted.append(sum(size for key, size in now.items() if key not in counting))
        counting = now
        if step % 40 == 0:
            host.forget()
    whole = written[0]  # the first tuples have waited until now
    assert whole // 2 < max(written[1:]) < 2 * whole  # once or more it has been written anew
    assert sum(written[1:]) < 150 * whole / 5
    assert len(known) < 100
    assert sum(counted[1:]) < 150 * counted[0] / 4
    assert len(counting) < 20
    host.forget()
    push(host, {"t": rows(*((200, k, 0, -k) for k in latest), columns=PAIR)})
    push(host, {s: rows((300, -1, 0, 10**6), columns=PAIR) for s in ("s", "t")})
    met = {x: -y for x, y in found(host, "x", "y") if y <= 0}
    assert met == {i: k for k, i in (latest.items() if window.by else every[-1000:])}

"""One-way joins and the halves of semijoins (semijoin 3.1): probes, and a window that they look into.

All six methods, and those with Bloom filters, are made of this one operator in three modes:

    join   a probe with each tuple that it finds                  the last step of every method
    pass   the probes that find anything        B' of SM-D1 and SM-D2, K' of SM-D2
    fetch  what is found, each tuple once       dW' of SM-S1 and SM-S2 (Algorithm 7), dV' of SM-S2

What the window holds are tuples of a stream, the keys of its window (V), or the keys that another site has
found to match; all of them are keys with an interval. A probe is a tuple at its time, or a key with a range
of times, or a Bloom filter.

The paper's three constraints (2.2) come from bounds, whatever the delay. *Delayed probe*: a probe waits until
the bound of the window has passed its time. *Delayed removal*: a tuple stays until no probe can come, or
wait, that it is alive for. *Limited interval*: a probe finds what is alive at its own time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.kernel.columns import FixedColumn
from thalweg.kernel.nway import Delta
from thalweg.kernel.probe import Step, probe
from thalweg.kernel.window import NEVER, Window
from thalweg.operators.bloom import contains
from thalweg.operators.event_time import Arrived
from thalweg.operators.output import Bound, Output, Report
from thalweg.operators.spec import END, KEY, START, ProbeSpec
from thalweg.operators.state import Cache, Head, Page, Runtime, lower, persist, rebuild
from thalweg.operators.tuples import delta, ints, read
from thalweg.operators.window_keys import BITS, containing, presences, rows_of
from thalweg.wire.message import merge

SENT = "#sent"
"""A column of a window that is fetched from: whether a tuple has been sent (the bit b of Algorithm 7)."""


class Probe:
    """One such operator. `call` handles what one micro-batch brings to one of its buckets."""

    def __init__(self, spec: ProbeSpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page, cache: Cache) -> Iterator[Output]:
        spec = self.spec
        head = Head.of(page, 2)
        held, filters = (
            [page.fetch(k) for k, i, w in head.snapshots if w == "pending" and i == n] for n in (0, 1)
        )
        state = cache.take(spec.join, head.nonce) or rebuild(spec.join, head, page, cache)
        for i, port in enumerate(spec.ports):
            head.advance(i, arrived.ports[i].bounds, port.feeds)
        added: Delta | None = None
        if spec.bloom == 1:
            filters += arrived.ports[1].tuples
        else:
            added = self._insert(state, arrived.ports[1].tuples)
            for ends in arrived.ends:
                lower(state, spec.join, ends)
        waiting = held + arrived.ports[0].tuples
        call = _Call(spec, state.join.windows[1], filters, head.bounds[0])
        probes = merge(waiting) if waiting else None
        going = 0 if probes is None else probes.num_rows
        if probes is not None:
            probes = yield from self._probe(call, probes, head.bounds[1])
            going -= probes.num_rows
        met = going * len(state.join.windows[1])
        low = NEVER
        if probes is not None and probes.num_rows and not spec.standing:
            low = int(ints(probes, START).min())
        alive = min(head.bounds[0], low)
        bound = min(head.bounds) if spec.standing else alive
        if spec.mode == "fetch":
            yield from arrived.ends
        yield Bound(bound, arrived.wall)
        self._forget(state, alive)
        state.pending = [
            [probes] if probes is not None and probes.num_rows else [],
            [f.filter(pa.array(ints(f, END) >= alive)) for f in filters],
        ]
        persist(spec.join, head, state, page, [None, added], [alive, NEVER])
        rows = len(state.join.windows[1]) + sum(b.num_rows for p in state.pending for b in p)
        stored = 0 if added is None else len(added.key)
        yield Report(state_rows=rows, state_bytes=state.nbytes, probed=met, updated=stored)
        state.pending = [[], []]  # they are read from the store: windows may be another process's next time
        cache.give(state)

    def _insert(self, state: Runtime, batches: list[pa.RecordBatch]) -> Delta | None:
        """New tuples of the window, and the ends of keys that have left it."""
        if not batches:
            return None
        batch, window = merge(batches), state.join.windows[1]
        closing: pa.RecordBatch | None = None
        if self.spec.closes:
            open_ = pa.array(ints(batch, END) == NEVER)
            batch, closing = batch.filter(open_), batch.filter(pc.invert(open_))
        if self.spec.mode == "fetch":
            batch = batch.append_column(SENT, pa.array(np.zeros(batch.num_rows, np.int64)))
        added = delta(self.spec.ports[1], batch)
        window.append(added.key, added.start, added.end, added.columns)
        window.link(window.next)
        if closing is not None and closing.num_rows:
            key, start, end = (ints(closing, n) for n in (KEY, START, END))
            for left, rows in _matches(window, key, start, start):
                same = window.starts(rows) == start[left]  # the same key may have come and gone before
                window.end[rows[same]] = end[left[same]]
        return added

    def _probe(
        self, call: _Call, probes: pa.RecordBatch, bound: int
    ) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """Let go the probes whose time has come; returns those that go on waiting."""
        spec = self.spec
        if spec.standing:
            probes, over = call.standing(probes, bound)
            yield from call.fetch(probes)
            return probes.filter(pa.array(~over))
        upto = ints(probes, END if spec.ranges or spec.bloom == 0 else START)
        ready = upto < bound
        if ready.any():
            chosen = probes if ready.all() else probes.filter(pa.array(ready))
            yield from getattr(call, spec.mode if spec.mode != "pass" else "pass_on")(chosen)
        return probes.filter(pa.array(~ready))

    def _forget(self, state: Runtime, bound: int) -> None:
        """Drop what no probe can find any more, also behind what stays on."""
        window = state.join.windows[1]
        window.expire(bound)
        if window.span is not None or len(window) < 1024:
            return
        rows = _rows(window)
        dead = window.end[rows] < bound
        if 2 * int(dead.sum()) > len(window):
            stay = rows[~dead]
            key, start, end = window.keys(stay), window.starts(stay), window.end[stay].copy()
            columns = [c.take(stay) for c in window.columns]
            window.first = window.linked = window.next
            window.append(key, start, end, columns)
            window.link(window.next)


@dataclass
class _Call:
    """The probes of one call against the window as it is now."""

    spec: ProbeSpec
    window: Window
    filters: list[pa.RecordBatch]
    bound: int  # of the probes

    def standing(self, probes: pa.RecordBatch, bound: int) -> tuple[pa.RecordBatch, np.ndarray]:
        """Probes that ask for all of a key's presence, up to its end; and which of those are over."""
        key, time = ints(probes, KEY), ints(probes, START)
        rows = _rows(self.window)
        rows = rows[np.isin(self.window.keys(rows), key)]
        words, first, last = presences(
            self.window.keys(rows), self.window.starts(rows), _ends(self.window, rows)
        )
        at = containing(words, first, key, time)
        found = at < len(words)
        found[found] = words[at[found]] == key[found]
        upto = np.where(found, last[np.minimum(at, max(len(last) - 1, 0))] if len(last) else 0, time)
        over = upto < bound
        ends = pa.array(np.where(over, upto, NEVER))
        return probes.set_column(probes.schema.names.index(END), END, ends), over

    def join(self, probes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        spec, port = self.spec, self.spec.ports[1]
        time = ints(probes, START)
        for left, right in _matches(self.window, ints(probes, KEY), time, time - 1 if spec.strict else time):
            same = np.ones(len(left), bool)
            for a, b in zip(spec.ports[0].verify, port.verify, strict=True):
                found = self.window.columns[port.index(b)].take(right)
                same &= np.asarray(pc.equal(probes.column(a).take(pa.array(left)), found)).astype(bool)
            if not same.any():
                continue
            rows, index = right[same], pa.array(left[same])
            columns = {START: pa.array(time[left[same]])}
            if spec.keyed:
                columns[KEY] = probes.column(KEY).take(index)
            for out in spec.output:
                if out.port == 0:
                    columns[out.name] = probes.column(out.field).take(index)
                else:
                    columns[out.name] = read(self.window, port, port.field(out.field), rows)
            yield pa.record_batch(list(columns.values()), names=list(columns))

    def pass_on(self, probes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        key, start = ints(probes, KEY), ints(probes, START)
        end = ints(probes, END) if self.spec.ranges else start
        passed = np.zeros(len(key), bool)
        for left, _ in _matches(self.window, key, start, end):
            passed[left] = True
        for table in self.filters:
            bits = table.column(BITS)
            for i, (lo, hi) in enumerate(zip(ints(table, START), ints(table, END), strict=True)):
                inside = np.flatnonzero((start >= lo) & (start <= hi) & ~passed)
                if len(inside):
                    passed[inside] = contains(bits[i].as_py(), key[inside])
        if passed.any():
            names = [KEY, START, END]
            if not self.spec.ranges:
                names = [START, *([KEY] if self.spec.keyed else []), *(o.name for o in self.spec.output)]
            yield probes.select(names).filter(pa.array(passed))

    def fetch(self, probes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        sent = self.window.columns[self.spec.ports[1].index(SENT)]
        assert isinstance(sent, FixedColumn)
        start = ints(probes, START)
        rows, since = self._tested(probes, sent) if self.spec.bloom == 0 else self._found(probes, sent, start)
        if not len(rows):
            return
        sent.data[rows] = 1
        if self.spec.interest:
            # Probes that come later can be of earlier times; the key is not asked for again for them.
            since = np.maximum(np.minimum(since, self.bound), self.window.starts(rows))
            yield rows_of(self.window.keys(rows), since, np.full(len(rows), NEVER))
            return
        port = self.spec.ports[1]
        columns = {START: pa.array(self.window.starts(rows))}
        if port.span is None:
            columns[END] = pa.array(self.window.end[rows])
        if self.spec.keyed:
            columns[KEY] = pa.array(self.window.keys(rows))
        for out in self.spec.output:
            columns[out.name] = read(self.window, port, port.field(out.field), rows)
        yield pa.record_batch(list(columns.values()), names=list(columns))

    def _found(
        self, probes: pa.RecordBatch, sent: FixedColumn, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows that are wanted and have not been sent, and the first time at which each is."""
        end = ints(probes, END) if self.spec.ranges else start
        found, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for left, rows in _matches(self.window, ints(probes, KEY), start, end):
            new = sent.data[rows] == 0
            found.append(rows[new])
            times.append(start[left[new]])
        rows, place = np.unique(np.concatenate(found), return_inverse=True)
        since = np.full(len(rows), NEVER)
        np.minimum.at(since, place, np.concatenate(times))
        return rows, since

    def _tested(self, probes: pa.RecordBatch, sent: FixedColumn) -> tuple[np.ndarray, np.ndarray]:
        """Rows that are in a filter while they are alive, and have not been sent."""
        rows = _rows(self.window)
        rows = rows[sent.data[rows] == 0]
        start, end, key = self.window.starts(rows), _ends(self.window, rows), self.window.keys(rows)
        wanted = np.zeros(len(rows), bool)
        bits = probes.column(BITS)
        for i, (lo, hi) in enumerate(zip(ints(probes, START), ints(probes, END), strict=True)):
            inside = np.flatnonzero((start <= hi) & (end >= lo) & ~wanted)
            if len(inside):
                wanted[inside] = contains(bits[i].as_py(), key[inside])
        return rows[wanted], start[wanted]


def _rows(window: Window) -> np.ndarray:
    return np.arange(window.row(window.first), window.row(window.next))


def _ends(window: Window, rows: np.ndarray | None = None) -> np.ndarray:
    rows = _rows(window) if rows is None else rows
    return window.end[rows] if window.span is None else window.starts(rows) + window.span


def _matches(
    window: Window, key: np.ndarray, start: np.ndarray, end: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of probes and rows of the window with the same key word that are alive at the same time."""
    step, at = Step(), (0, -1)
    while at[0] < len(key):
        n, *rest = probe(key, start, end, window, step, at)
        at = (rest[0], rest[1])
        if n:
            yield step.left[:n].copy(), step.row[:n].copy()

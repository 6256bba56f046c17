"""The N-way join as an operator: tuples in, results out, state in a store.

One call handles one bucket of one operator and one micro-batch. Its windows are rebuilt from the state only
when they are not at hand, which the state's nonce tells. A tuple expires when it ends before the bounds of
all other inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from thalweg.errors import UserError
from thalweg.kernel.nway import Delta, NWayJoin, Results, others
from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Arrived
from thalweg.operators.output import Bound, Output, Report
from thalweg.operators.spec import END, KEY, START, JoinSpec
from thalweg.operators.spilling import Overflow
from thalweg.operators.state import FAR, Cache, Head, Lowered, Page, Runtime, lower, persist, rebuild
from thalweg.operators.tuples import delta, ints, read
from thalweg.operators.unpaired import Unpaired
from thalweg.wire.message import merge

RESULT_BYTES = 256 << 20
"""The most that one column of a batch of results holds, unless a single value is larger."""


class Join:
    """One N-way join. `call` joins what one micro-batch brings to one of its buckets."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec

    def call(
        self, arrived: Arrived, page: Page, cache: Cache, folder: SpillFolder | None = None, bucket: str = ""
    ) -> Iterator[Output]:
        """All that comes out must be taken before the next call.

        `folder` is for the tuples that memory has no room for, where there is a limit.
        """
        spec = self.spec
        head = Head.of(page, len(spec.ports))
        if head.cold and spec.limit is None:
            raise UserError(
                "windows are partly on disk: the run was begun with a memory budget", remedy="give one again"
            )
        state = cache.take(spec, head.nonce) or rebuild(spec, head, page, cache)
        fresh = [merge(port.tuples) if port.tuples else None for port in arrived.ports]
        for i, (port, arrivals) in enumerate(zip(spec.ports, arrived.ports, strict=True)):
            head.advance(i, arrivals.bounds, port.feeds)
        limit = min((head.bounds[i] for i, p in enumerate(spec.ports) if p.open_ends), default=NEVER)
        learnt: list[Lowered] = []
        if spec.held:
            for waiting, batch in zip(state.pending, fresh, strict=True):
                waiting.extend([] if batch is None else [batch])
            for ends in arrived.ends:  # they may be of tuples that have come with them
                learnt += lower(state, spec, ends)
            fresh = [self._release(state, i, limit) for i in range(len(fresh))]
        bounds = [min(b, limit) for b in head.bounds]
        pairs = Unpaired(spec, state.join, head.place) if spec.outer else None
        if pairs is not None:
            yield from pairs.keyless(fresh)
            fresh = list(pairs.taken(fresh))
        deltas = [
            None if batch is None else delta(port, batch)
            for port, batch in zip(spec.ports, fresh, strict=True)
        ]
        bound, met = min(bounds), state.join.counters.met
        if pairs is not None:
            yield from self._outer(pairs, deltas)
            yield from pairs.over(bounds)
            bound = min(bound, pairs.low)
            head.place, head.passed = pairs.place, [FAR if b >= NEVER else b for b in bounds]
        elif spec.limit is None:
            yield from self._results((state.join, found) for found in state.join.push(deltas))
        else:
            assert folder is not None
            disk = Overflow(spec, spec.limit, head, state, page, folder)
            hurry = arrived.hurry or min(head.bounds) >= NEVER
            yield from self._results(disk.push(deltas, bounds, hurry))
            deltas, bound = disk.logged, min(bound, disk.held_back(bounds, hurry))
        yield from arrived.ends
        yield Bound(bound, arrived.wall)
        state.join.expire(bounds)
        marks = [] if pairs is None else [pairs.marks(i, others(bounds, i)) for i in range(len(bounds))]
        persist(spec, head, state, page, deltas, bounds, marks, self._stored(arrived), learnt)
        report = Report(state_rows=sum(len(w) for w in state.join.windows), state_bytes=state.nbytes)
        report.probed = int(state.join.counters.met - met)
        report.updated = sum(len(d) for d in deltas if d is not None)
        if spec.limit is not None:
            # Results also wait where the bound is held back: a call in a hurry lets it go.
            waiting_on_disk = {bucket: max(disk.rows_waiting, int(bound < min(bounds)))}
            report.add(Report(state_rows=disk.rows, state_bytes=disk.visited, disk_bytes=disk.nbytes))
            report.add(Report(waiting=waiting_on_disk))
        yield report
        cache.give(state)

    def _stored(self, arrived: Arrived) -> Sequence[Sequence[tuple[int, str]]]:
        """The entries of the state that have all new tuples of an input, as they arrived; empty if none."""
        if self.spec.held or self.spec.outer or self.spec.limit is not None:
            return ()
        return [p.stored if len(p.stored) == len(p.tuples) else () for p in arrived.ports]

    def _outer(self, pairs: Unpaired, deltas: Sequence[Delta | None]) -> Iterator[pa.RecordBatch]:
        """The pairs of an outer join, or the tuples of a semijoin."""
        for found in pairs.join.push(deltas):
            if self.spec.outer == "semi":
                yield from pairs.once(found)
                continue
            partners = pairs.partners(found)
            if self.spec.outer != "anti" and len(partners):
                yield from (self._materialise(pairs.join, part) for part in self._cut(pairs.join, partners))

    def _release(self, state: Runtime, i: int, limit: int) -> pa.RecordBatch | None:
        """The tuples of an input below whose time no window of rows can change any more."""
        waiting, state.pending[i] = state.pending[i], []
        if not waiting:
            return None
        together = merge(waiting)
        ready = ints(together, START) < limit
        if not ready.all():
            state.pending[i] = [together.filter(pa.array(~ready))]
            together = together.filter(pa.array(ready))
        return together if together.num_rows else None

    def _results(self, found: Iterable[tuple[NWayJoin, Results]]) -> Iterator[pa.RecordBatch]:
        return (self._materialise(by, part) for by, all_ in found for part in self._cut(by, all_))

    def _cut(self, join: NWayJoin, found: Results) -> Iterator[Results]:
        """Results in parts that are small enough for an Arrow column each, however long their strings."""
        fields = [(o.port, self.spec.ports[o.port], o.field) for o in self.spec.output]
        stored = [
            (i, join.windows[i].columns[port.index(f)]) for i, port, f in fields if not port.field(f).held
        ]
        if len(found) > 1 and any(c.size(found.rows[i]) > RESULT_BYTES for i, c in stored):
            middle = len(found) // 2
            yield from self._cut(join, found.slice(0, middle))
            yield from self._cut(join, found.slice(middle, len(found)))
        else:
            yield found

    def _materialise(self, join: NWayJoin, found: Results) -> pa.RecordBatch:
        columns = {START: pa.array(found.start)}
        if self.spec.ends:
            columns[END] = pa.array(found.end)
        if self.spec.keyed:
            columns[KEY] = pa.array(found.key)
        for out in self.spec.output:
            port = self.spec.ports[out.port]
            columns[out.name] = read(
                join.windows[out.port], port, port.field(out.field), found.rows[out.port]
            )
        return pa.record_batch(list(columns.values()), names=list(columns))

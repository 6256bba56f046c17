"""A stream where it arises: its tuples are judged, and for windows of rows put in order and counted.

The output has the time of each tuple in START and, for each window of rows over the stream, the tuple's last
moment in a column of that window. Last moments that are learnt later follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.observe.sketch import Sketch
from thalweg.operators.event_time import Arrivals, Arrived, Progress, after_all, judge, past_idle
from thalweg.operators.memo import Memo
from thalweg.operators.output import Bound, Late, Output, Report
from thalweg.operators.row_windows import count, order_rows
from thalweg.operators.spec import REASON, SEQ, START, UNDECODED, SourceSpec, Watched
from thalweg.operators.state import Page
from thalweg.operators.tuples import ints, restored
from thalweg.units import FARTHEST

UNUSABLE = "no usable time"
"""The reason where tuples are only counted, so that nothing of them is known."""

PLACES = 40
"""The bits of a place below the number of the bucket: buckets that count by key share no place."""


class Source:
    """One source operator."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page, bucket: int = 0) -> Iterator[Output]:
        """What one micro-batch brings to one bucket, by its number."""
        spec, own = self.spec, arrived.ports[0]
        memo = Memo.load(page)
        progress, walls = self._known(memo)
        batch, late = judge(own.tuples, own.rest, progress.bounds[0])
        if spec.reports:
            newest = {spec.stream: max(own.bounds.values())} if own.heard else {}
            yield Report(read={spec.stream: own.count}, newest=newest)
            for part in own.aside:
                yield self._late(part)
            for part in late:
                yield self._late(part, "late")
            if spec.observed and own.count:
                yield Report(sketches={spec.stream: self._sketch(own, progress.bounds[0])})
        self._advance(progress, walls, arrived)
        bound = progress.bounds[0]
        memo.facts |= {"bounds": progress.bounds, "walls": walls}
        if spec.observed and bound < NEVER:  # of an earlier program, it may have ended, but not the stream
            yield Report(progress={spec.stream: [progress.bounds, walls]})
        if spec.rows:
            yield from self._in_order(memo, batch, bound, bucket << PLACES)
        elif batch is not None and batch.num_rows:
            yield batch
        yield Bound(bound, walls[0])
        memo.save()
        yield Report(state_rows=memo.rows, state_bytes=memo.nbytes)

    def _known(self, memo: Memo) -> tuple[Progress, list[int]]:
        """The bounds of the stream and of those it watches, and when each was last heard of."""
        ports = 1 + len(self.spec.watched)
        bounds, walls = [-NEVER] * ports, [0] * ports
        if self.spec.begin is not None:
            bounds, walls = map(list, self.spec.begin)
        return Progress(memo.facts.get("bounds", bounds)), memo.facts.get("walls", walls)

    def _advance(self, progress: Progress, walls: list[int], arrived: Arrived) -> None:
        """Move the bounds by what has arrived, and past this stream where it has fallen idle."""
        spec, own = self.spec, arrived.ports[0]
        streams: list[SourceSpec | Watched] = [spec, *spec.watched]
        # Only by what it hears itself: the source operators of a stream must all judge alike, and the other
        # messages of a call are not the same in all key groups.
        now = max(arrivals.wall for arrivals in arrived.ports)
        for i, (stream, arrivals) in enumerate(zip(streams, arrived.ports, strict=True)):
            progress.advance(i, arrivals.bounds, lateness=stream.lateness)
            if walls[i] == 0 or (i == 0 and (own.count or own.heard)):
                walls[i] = now
            elif i:
                walls[i] = max(walls[i], arrivals.wall)
        if arrived.ended:
            progress.bounds[0] = NEVER
            return
        if spec.follows:
            progress.bounds[0] = after_all(progress.bounds)
            return
        idle = [stream.idle for stream in streams]
        progress.bounds[0] = past_idle(progress.bounds, walls, idle, now)

    def _sketch(self, own: Arrivals, bound: int) -> dict[str, Any]:
        """What the tuples of a call are like, also of those that no query wants.

        Late tuples would stretch the span of times, by which a rate is known.
        """
        sketch = Sketch()
        for arrived in (*own.tuples, *own.rest):
            in_time = ints(arrived, START) >= bound
            batch = arrived if in_time.all() else arrived.filter(pa.array(in_time))
            there = [(f, c) for f, c in self.spec.observed if f in batch.schema.names]
            columns = {column: batch.column(field) for field, column in there}
            sketch.update(columns, ints(batch, START), [k for k in self.spec.keys if k in columns])
        return sketch.to_json()

    def _late(self, late: pa.RecordBatch, why: str = "") -> Late:
        """Late tuples as they are kept, those of encoded values with the reason."""
        spec, n = self.spec, late.num_rows
        if not spec.kept:
            return Late(spec.stream, n, None, {why or UNUSABLE: n})
        columns = {
            f.name: late.column(f.name)
            if f.name in late.schema.names
            else restored(ints(late, f.held), f.kind)
            for f in spec.kept
        }
        reasons = np.full(n, why) if why else self._reasons(columns)
        counts = {str(r): int(m) for r, m in zip(*np.unique(reasons, return_counts=True), strict=True)}
        if UNDECODED in columns:  # elsewhere the time of a tuple says enough
            columns[REASON] = pa.array(reasons.tolist(), pa.string())
        return Late(spec.stream, n, pa.record_batch([*columns.values()], names=[*columns]), counts)

    def _reasons(self, columns: Mapping[str, pa.Array]) -> np.ndarray:
        """Why tuples have no usable time."""
        time = next(columns[f.name] for f in self.spec.kept if f.held == START)
        micros = np.asarray(time.view(pa.int64()).fill_null(0))
        far = (micros <= -FARTHEST) | (micros >= FARTHEST)
        found = np.where(far, "out of range", "too far ahead")
        found = np.where(np.asarray(time.is_null()), "no time", found)
        if UNDECODED in columns:
            found = np.where(np.asarray(columns[UNDECODED].is_valid()), "not decoded", found)
        return found

    def _in_order(self, memo: Memo, batch: pa.RecordBatch | None, bound: int, base: int) -> Iterator[Output]:
        """Let go what nothing can come before any more, with its place in the stream."""
        spec = self.spec
        waiting = memo.together("waiting", [] if batch is None else [batch])
        if waiting is None:
            return
        ready = ints(waiting, START) < bound
        memo.tables["waiting"] = waiting.filter(pa.array(~ready))
        if not ready.any():
            return
        ordered = order_rows(spec.stream, spec.order, spec.rows, waiting.filter(pa.array(ready)))
        first = memo.facts.get("next", 0)
        memo.facts["next"] = first + ordered.num_rows
        places = np.arange(base + first, base + first + ordered.num_rows)
        ordered = ordered.append_column(SEQ, pa.array(places))
        columns, learnt = {n: ordered.column(n) for n in ordered.schema.names}, []
        for window in spec.rows:
            tail = f"tail.{window.name}"
            counted = count(window, memo.tables.get(tail), ordered)
            columns[window.end] = pa.array(counted.ends)
            memo.grow(tail, counted.known, counted.fresh, counted.tail)
            learnt += [counted.learnt] if len(counted.learnt.places) else []
        yield pa.record_batch(list(columns.values()), names=list(columns))
        yield from learnt

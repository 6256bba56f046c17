"""Where results end, and where shipped tuples pass through on their way to another site."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Arrived, Progress
from thalweg.operators.output import Bound, Output, Report, Results
from thalweg.operators.spec import START, RelaySpec, SinkSpec
from thalweg.operators.state import SEGMENT_BYTES, Page
from thalweg.operators.tuples import ints
from thalweg.wire.message import pieces


class Sink:
    """Hands out results: at once, or when their slide is over."""

    def __init__(self, spec: SinkSpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page) -> Iterator[Output]:
        spec, found = self.spec, arrived.ports[0].tuples
        if spec.since is not None:
            found = [b.filter(pa.array(ints(b, START) >= spec.since)) for b in found]
        progress = Progress(page.record.get("bounds", [-NEVER]), page.record.get("feeds", {}))
        progress.advance(0, arrived.ports[0].bounds, spec.port.feeds)
        bound = progress.bounds[0]
        if spec.slide is None:
            yield from (Results(spec.query, batch) for batch in found)
            page.write({"bounds": progress.bounds, "feeds": progress.feeds})
            yield Bound(bound, arrived.wall)
            return
        cut = NEVER if bound >= NEVER else bound // spec.slide * spec.slide
        waiting: dict[str, list[int]] = {}  # by entry: the least time, rows, bytes
        for key, (first, *rest) in page.record.get("waiting", {}).items():
            if first >= cut:
                waiting[key] = [first, *rest]
                continue
            found.append(page.fetch(int(key)))
            page.remove(int(key))
        for batch in found:
            ready = ints(batch, START) < cut
            if ready.any():
                yield Results(spec.query, batch.filter(pa.array(ready)))
            for part in pieces(batch.filter(pa.array(~ready)), SEGMENT_BYTES):
                times = ints(part, START)
                waiting[str(page.put(part))] = [int(times.min()), part.num_rows, part.nbytes]
        page.write({"bounds": progress.bounds, "feeds": progress.feeds, "waiting": waiting})
        yield Report(
            state_rows=sum(w[1] for w in waiting.values()), state_bytes=sum(w[2] for w in waiting.values())
        )
        yield Bound(bound, arrived.wall)


class Relay:
    """Sends on what it gets."""

    def __init__(self, spec: RelaySpec) -> None:
        self.spec = spec

    def call(self, arrived: Arrived, page: Page) -> Iterator[Output]:
        port = arrived.ports[0]
        yield from port.tuples
        yield from arrived.ends
        for bound in port.bounds.values():
            yield Bound(bound, arrived.wall)

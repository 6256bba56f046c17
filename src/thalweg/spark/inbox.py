"""All that other sites send to the sites of one application, as one stream of Spark.

Its offsets are the last numbers read, by edge. What Spark has committed is forgotten; what it has planned and
not committed is read again after a crash, from the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from thalweg.programs.parcel import Parcel
from thalweg.spark.exchange import Exchange, Exchanges, FileExchanges
from thalweg.spark.links import Link, links_of, links_text
from thalweg.spark.parcels import CONTROL, Edge, is_site

LIMIT = 128 << 20
"""How many bytes a batch takes in at most, as long as no single file has more."""

_FLUSH = 32 << 20  # bytes of a record batch; far below what an Arrow column can hold
_SLICE_S = 0.1  # how long something that arrives earlier than what is waited for stays unseen at most

SCHEMA = t.StructType(
    [
        t.StructField("edge", t.StringType()),
        t.StructField("seq", t.LongType()),
        t.StructField("stream", t.StringType()),
        t.StructField("kind", t.IntegerType()),
        t.StructField("n", t.LongType()),
        t.StructField("bound", t.LongType()),
        t.StructField("wall", t.LongType()),
        t.StructField("payload", t.LongType()),
        t.StructField("data", t.BinaryType()),
    ]
)
_ARROW = pa.schema(
    [
        ("edge", pa.string()),
        ("seq", pa.int64()),
        ("stream", pa.string()),
        ("kind", pa.int32()),
        ("n", pa.int64()),
        ("bound", pa.int64()),
        ("wall", pa.int64()),
        ("payload", pa.int64()),
        ("data", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Arrived(Parcel):
    """A parcel that has arrived, and where."""

    edge: str = ""
    seq: int = 0


@dataclass(frozen=True)
class InboxOptions:
    """What an inbox is told: the folder of all exchanges, the run, and the sites it is the inbox of."""

    root: Path
    run: str
    sites: tuple[str, ...]
    links: Mapping[str, Link] = field(default_factory=dict)
    limit: int = LIMIT

    def __post_init__(self) -> None:
        for site in self.sites:
            if not is_site(site):
                raise ValueError(f"no name of a site: {site!r}")
        for edge in self.links:
            Edge.named(edge)

    def texts(self) -> dict[str, str]:
        """As options of a data source."""
        return {
            "root": str(self.root),
            "run": self.run,
            "sites": ",".join(self.sites),
            "links": links_text(self.links),
            "limit": str(self.limit),
        }

    @staticmethod
    def parse(texts: Mapping[str, str]) -> InboxOptions:
        """The inverse of `texts`."""
        sites = tuple(name for name in texts["sites"].split(",") if name)
        links = links_of(texts.get("links", "{}"))
        return InboxOptions(Path(texts["root"]), texts["run"], sites, links, int(texts.get("limit", LIMIT)))


class Inbox(DataSource):
    """The data source. A subclass that turns parcels into other rows overrides `name`, `schema` and `rows`.

        spark.dataSource.register(Inbox)
        spark.readStream.format(Inbox.name()).options(**InboxOptions(root, run, sites).texts()).load()

    A query must use the frame once: for each use Spark makes a reader of its own, and what one of them has
    committed is gone for the others.
    """

    @classmethod
    def name(cls) -> str:
        return "thalweg_inbox"

    def schema(self) -> t.StructType:
        return SCHEMA

    def rows(self, parcels: Iterator[Arrived]) -> Iterator[pa.RecordBatch]:
        """What Spark is given for the parcels of one edge, in their order; called in a worker."""
        held: list[Arrived] = []
        size = 0
        for parcel in parcels:
            held.append(parcel)
            size += len(parcel.data)
            if size >= _FLUSH:
                yield _batch(held)
                held, size = [], 0
        if held:
            yield _batch(held)

    def exchanges(self, options: InboxOptions) -> Exchanges:
        """Where the parcels come from; all that knows of files."""
        return FileExchanges(options.root, options.run, options.links)

    def streamReader(self, schema: t.StructType) -> InboxReader:  # noqa: N802 (Spark's name)
        return InboxReader(self, InboxOptions.parse(self.options))


def _batch(parcels: Sequence[Arrived]) -> pa.RecordBatch:
    columns = {name: [getattr(p, name) for p in parcels] for name in _ARROW.names}
    return pa.RecordBatch.from_pydict(columns, schema=_ARROW)


@dataclass(frozen=True)
class Files(InputPartition):
    """What one task reads: the files of an edge after one number up to another."""

    edge: str
    after: int
    upto: int


class InboxReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads batches. Spark has one in a process beside the driver, and one in each task."""

    def __init__(
        self,
        inbox: Inbox,
        options: InboxOptions,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.inbox, self.options, self.clock, self.sleep = inbox, options, clock, sleep
        self.exchanges = inbox.exchanges(options)
        self.draining = False
        self._parent = os.getppid()

    def exchange(self, edge: str) -> Exchange:
        return self.exchanges.over(Edge.named(edge))

    def _leads_here(self, edge: Edge) -> bool:
        return edge == CONTROL or edge.target in self.options.sites

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self.options.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on wait for what is on its way.

        The ends are not settled here, as Spark asks for: what a batch of this very run sends to its own sites
        is to be read in the same run. It ends because operators that are given nothing send nothing.
        """
        self.draining = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        while True:
            end = self._readable(start, limit)
            if end != start or not self.draining:
                return end
            waiting = [self.exchange(edge).next_at(start.get(edge, 0)) for edge in self._known(start)]
            moments = [moment for moment in waiting if moment is not None]
            # Spark ends this process when the query stops, but not where Spark itself was killed.
            if not moments or os.getppid() != self._parent:
                return end
            self.sleep(min(max(min(moments) - self.clock(), 0.001), _SLICE_S))

    def _known(self, start: Mapping[str, int]) -> list[str]:
        """What is there, and what has been: were it gone, that must be said, not passed over."""
        known = {*self.exchanges.edges(), *map(Edge.named, start)}
        return sorted(edge.name for edge in known if self._leads_here(edge))

    def _readable(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        now = self.clock()
        ends = {edge: self.exchange(edge).ready(start.get(edge, 0), now) for edge in self._known(start)}
        moved = {edge: end for edge, end in ends.items() if end > start.get(edge, 0)}
        if isinstance(limit, ReadMaxBytes) and moved:
            # Each edge has its share, so that a busy one does not hold up the others.
            share = limit.max_bytes // len(moved)
            moved = {edge: self._within(edge, start.get(edge, 0), end, share) for edge, end in moved.items()}
        # Spark compares offsets as texts: the same ones must be written the same way.
        return dict(sorted({**start, **moved}.items()))

    def _within(self, edge: str, after: int, upto: int, share: int) -> int:
        """The last number with which no more bytes are read than this; at least one file is."""
        exchange, size = self.exchange(edge), 0
        for seq in range(after + 1, upto + 1):
            size += exchange.sent(seq).bytes
            if size > share and seq > after + 1:
                return seq - 1
        return upto

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Files]:
        return [
            Files(edge, start.get(edge, 0), upto) for edge, upto in end.items() if upto > start.get(edge, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        return self.inbox.rows(self._parcels(partition))

    def _parcels(self, files: Files) -> Iterator[Arrived]:
        exchange = self.exchange(files.edge)
        for seq in range(files.after + 1, files.upto + 1):
            for p in exchange.read(seq):
                yield Arrived(p.stream, p.kind, p.n, p.bound, p.wall, p.payload, p.data, files.edge, seq)

    def commit(self, end: dict[str, int]) -> None:
        """Spark says this once a batch is in its commit log; a batch that is only planned starts after it."""
        for edge, upto in end.items():
            # Control is read by every application, each in its own time.
            if edge != CONTROL.name and self._leads_here(Edge.named(edge)):
                self.exchange(edge).forget(upto)

"""All that other sites send to the sites of one application, as one stream of Spark.

Its offsets are the last numbers read, by edge. What Spark has committed is forgotten; what it has planned and
not committed is read again after a crash, from the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from thalweg.exchange.files import FileExchanges
from thalweg.exchange.links import Link, links_of, links_text
from thalweg.exchange.log import Exchange, Exchanges
from thalweg.exchange.parcel_file import CONTROL, Edge, is_site
from thalweg.spark.program_files import Programs
from thalweg.spark.schema import MESSAGE
from thalweg.storage import Location, location

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT = 128 << 20
"""How many bytes a batch takes in at most, as long as no single file has more."""

_TASK = 4 << 20  # so many bytes are worth a task of their own, which costs Spark some 20 ms
_SLICE_S = 0.1  # how long something that arrives earlier than what is waited for stays unseen at most


@dataclass(frozen=True)
class InboxOptions:
    """What an inbox is told: the folders of exchanges and programs, the run, and the sites it serves.

    `alone`: these are all sites of the run, so nobody else reads what is said to all.
    """

    root: Location
    run: str
    sites: tuple[str, ...]
    programs: str
    links: Mapping[str, Link] = field(default_factory=dict)
    limit: int = LIMIT
    alone: bool = False

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
            "programs": self.programs,
            "links": links_text(self.links),
            "limit": str(self.limit),
            "alone": str(int(self.alone)),
        }

    @staticmethod
    def parse(texts: Mapping[str, str]) -> InboxOptions:
        """The inverse of `texts`."""
        sites = tuple(name for name in texts["sites"].split(",") if name)
        links, limit = links_of(texts.get("links", "{}")), int(texts.get("limit", LIMIT))
        alone = bool(int(texts.get("alone", "0")))
        return InboxOptions(
            location(texts["root"]), texts["run"], sites, texts["programs"], links, limit, alone
        )


class Inbox(DataSource):
    """The data source.

        spark.dataSource.register(Inbox)
        options = InboxOptions(root, run, sites, programs).texts()
        spark.readStream.format(Inbox.name()).options(**options).load()

    A query must use the frame once: for each use Spark makes a reader of its own, and files that one of them
    has committed are gone for the others.
    """

    @classmethod
    def name(cls) -> str:
        return "thalweg_inbox"

    def schema(self) -> t.StructType:
        return MESSAGE

    def streamReader(self, schema: t.StructType) -> InboxReader:  # noqa: N802 (Spark's name)
        options = InboxOptions.parse(self.options)
        return InboxReader(options, FileExchanges(options.root, options.run, options.links))


class Span(NamedTuple):
    """The files of an edge after one number, up to another."""

    edge: str
    after: int
    upto: int


@dataclass(frozen=True)
class Files(InputPartition):
    """What one task reads."""

    spans: tuple[Span, ...]


class InboxReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads batches. Spark has one in a process beside the driver, and one in each task."""

    def __init__(
        self,
        options: InboxOptions,
        exchanges: Exchanges,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options, self.exchanges, self.clock, self.sleep = options, exchanges, clock, sleep
        self.draining = False
        self._committed: dict[str, int] = {}
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
        spans = [
            Span(edge, start.get(edge, 0), upto) for edge, upto in end.items() if upto > start.get(edge, 0)
        ]
        tasks: list[list[Span]] = []
        room = 0
        for span in spans:
            size = sum(
                self.exchange(span.edge).sent(seq).bytes for seq in range(span.after + 1, span.upto + 1)
            )
            if room < size or not tasks:
                tasks.append([])
                room = _TASK
            tasks[-1].append(span)
            room -= size
        return [Files(tuple(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What arrives, as messages for the operators that read it; called in a worker."""
        # Spark also loads this class into processes that only plan batches, and starts them anew each time:
        # what takes seconds to load is loaded where parcels are read.
        from thalweg.spark.program_files import batch_number
        from thalweg.spark.rows import record_batch
        from thalweg.spark.worker import settle

        assert isinstance(partition, Files)
        settle()
        programs = Programs(self.options.programs)
        program = programs.at(batch_number())
        for edge, after, upto in partition.spans:
            exchange = self.exchange(edge)
            for seq in range(after + 1, upto + 1):
                sender = None if edge == CONTROL.name else programs.at(exchange.sent(seq).batch)
                for parcel in exchange.read(seq):
                    if sender is None:
                        found = program.told(parcel.kind, parcel.wall, ending=bool(parcel.shipment))
                    else:
                        found = program.arriving(parcel, sender)
                    yield from (record_batch([message]) for message in found)

    def commit(self, end: dict[str, int]) -> None:
        """Spark says this once a batch is in its commit log; a batch that is only planned starts after it.

        The log may not be on the disk yet. That of the batch before is, so what that one has read is removed.
        """
        before, self._committed = self._committed, end
        for edge, upto in before.items():
            # Control is read by every application, each in its own time.
            if self.options.alone if edge == CONTROL.name else self._leads_here(Edge.named(edge)):
                self.exchange(edge).forget(upto)

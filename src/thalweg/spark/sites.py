"""Hosts sites on Structured Streaming: one streaming query for all sites of an application.

    streams ─ pack ─┐                  ┌ results, late tuples
                    ├─ one stage of ───┤
    inbox ─ route ──┘   operators      └ drafts ─> exchanges ─> inbox, of the next batch

Its inputs are the sites' own streams and one inbox for all that is sent to them; its operators, by group, are
what `programs.sites.Sites` lists for each site. That list is data: workers read it from a file, by the number
of the batch, so a repeat sees the list of its batch, and a new list needs no new query.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from thalweg.errors import UserError
from thalweg.plan.document import Plan
from thalweg.programs.deploy import Deployed, deploy
from thalweg.programs.job import QueryPlan, StreamInfo, limited
from thalweg.programs.outlet import parcels, results, settled
from thalweg.programs.packet import Kind, Packet
from thalweg.programs.parcel import Parcel
from thalweg.programs.sites import SiteOperator, SourceStream, run
from thalweg.programs.source import WALL, pack_source
from thalweg.programs.spec import JoinSpec, Limit, ProbeSpec
from thalweg.query.model import Query
from thalweg.spark.delivery import LISTS, SiteInbox
from thalweg.spark.drafts import Drafts
from thalweg.spark.exchange import FileExchanges, Sent
from thalweg.spark.host import MapStore, Processor, packer, partitions_of, spill_of
from thalweg.spark.inbox import InboxOptions
from thalweg.spark.late import LateFiles
from thalweg.spark.links import Link
from thalweg.spark.lists import Lists, batch_number
from thalweg.spark.packets import labels
from thalweg.spark.parcels import CONTROL, Edge
from thalweg.spark.schema import PACKET
from thalweg.spark.stateful import Lazy
from thalweg.spark.typing import typed_query
from thalweg.spark.unpack import Direct
from thalweg.spark.worker import cache_of, check_place, forget_at_exit


def planned(
    spark: SparkSession,
    queries: Sequence[Query],
    plan: Plan,
    infos: Sequence[StreamInfo],
    schemas: Mapping[str, t.StructType],
    at: Mapping[str, str],
) -> Deployed:
    """The plan of the queries as what sites run; a bucket of each operator for each partition."""
    partitions = partitions_of(spark)
    return deploy(
        [(typed_query(spark, q, schemas), p.deployment) for q, p in zip(queries, plan.queries, strict=True)],
        {i.name: i for i in infos},
        at,
        buckets=partitions,
        labels=lambda n: labels(n, partitions),
        keep_late=True,
    )


class _Operators(Processor):
    """Gives each group of packets to its operator, and writes down what that sends."""

    def __init__(
        self, job: str, lists: Lists, drafts: Drafts, limit: Limit | None, spill: Path, *hosting: Any
    ) -> None:
        super().__init__(*hosting)
        self._job, self._lists, self._drafts = job, lists, drafts
        self._limit, self._spill = limit, spill

    def packets(self, group: int, packets: Iterator[Packet], store: MapStore) -> Iterator[Packet]:
        batch = batch_number()
        check_place(group, self.partitions)
        operator = self._lists.at(batch).by_group[group]
        spec = operator.spec
        cached = spec if isinstance(spec, JoinSpec) else spec.join if isinstance(spec, ProbeSpec) else None
        sent: dict[str, list[Parcel]] = defaultdict(list)
        cache, folder = cache_of(self._job, group, cached), spill_of(self._spill, group)
        for packet in run(operator, packets, store, cache, self._limit, folder):
            if packet.kind in (Kind.DATA, Kind.RESOLVE):
                for site, parcel in parcels(operator.outlets, [packet]):
                    sent[site].append(parcel)
                yield from results(operator.outlets, packet)
            else:
                yield packet
        yield from self._written(operator, group, batch, sent)

    def _written(
        self, operator: SiteOperator, group: int, batch: int, sent: Mapping[str, list[Parcel]]
    ) -> Iterator[Packet]:
        for site, together in sent.items():
            if site:
                edge = Edge(operator.site, site)
                yield _said(sent=self._drafts.write(edge, batch, str(group), together))
            elif payload := sum(p.payload for p in together):
                yield _said(whole=operator.site, payload=payload)


def _said(**report: Any) -> Packet:
    return Packet(0, 0, Kind.SENT, 1, None, 0, json.dumps(report).encode())


@dataclass
class SiteHost:
    """All sites of an application. `root` is the folder of their exchanges and lists."""

    spark: SparkSession
    deployed: Deployed
    root: Path
    run: str
    links: Mapping[str, Link]
    spill: Path
    budget: int | None = None

    def __post_init__(self) -> None:
        self.lists = Lists(self.root / "sites")
        self.exchanges = FileExchanges(self.root / "exchange", self.run, self.links)
        self.drafts = Drafts(self.root / "exchange", self.run)

    @property
    def queries(self) -> Sequence[QueryPlan]:
        return self.deployed.queries

    @property
    def must_end(self) -> bool:
        """Probes wait until windows at other sites have passed them, so the end must always be told."""
        return True

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(o.site for o in self.deployed.sites.operators))

    def settle(self) -> None:
        """Write down what the sites run; a run that goes on keeps to what was written when it began."""
        first = self.lists.folder / f"{0:09d}.json"
        if not first.exists():
            self.lists.put(0, self.deployed.sites)
        elif first.read_bytes() != self.deployed.sites.to_json():
            raise UserError(
                "is not what this thalweg makes of the run's plan",
                where=str(first),
                remedy="start the run in a new folder",
            )

    def check(self, sent: Mapping[str, int]) -> None:
        """Whether all is there that was sent; were the last of it gone, nothing else would tell."""
        for name, seq in sent.items():
            exchange = self.exchanges.over(Edge.named(name))
            if exchange.last() < seq:
                raise UserError(
                    "is missing", where=str(exchange.path(seq)), remedy="start the run in a new folder"
                )

    def flow(self, frames: Mapping[str, DataFrame], late: LateFiles, direct: Direct | None) -> DataFrame:
        """All that comes out of the operators, and what they say of themselves."""
        forget_at_exit(self.spark)
        parts = [_pack(s, frames[s.stream]) for s in self.deployed.sites.streams]
        self.spark.dataSource.register(SiteInbox)
        options = InboxOptions(self.root / "exchange", self.run, self.sites, self.links)
        told = {**options.texts(), LISTS: str(self.lists.folder)}
        together = self.spark.readStream.format(SiteInbox.name()).options(**told).load()
        for part in parts:
            together = together.union(part)
        processor = _Operators(
            self.run,
            self.lists,
            self.drafts,
            self._limit(),
            self.spill,
            *(partitions_of(self.spark), late, direct),
        )
        return together.groupBy("group").transformWithStateInPandas(
            Lazy(processor),
            direct.schema if direct is not None else PACKET,
            outputMode="Append",
            timeMode="None",
        )

    def _limit(self) -> Limit | None:
        """What of the budget each bucket of a join may use; only the windows of joins can be on disk.

        Nothing waits on disk for another batch: what a site sends must not depend on when it was restarted.
        """
        if self.budget is None:
            return None
        operators = self.deployed.sites.operators
        if steps := [o.name for o in operators if isinstance(o.spec, ProbeSpec)]:
            raise UserError(
                f"a memory budget is not possible with probe sequences ({steps[0]})",
                remedy="choose a planner of the families tree or partitioned, such as --planner optimal",
            )
        joins = [o for o in operators if isinstance(o.spec, JoinSpec)]
        limit = Limit(self.budget // max(1, sum(len(o.groups) for o in joins)))
        for o in joins:
            assert isinstance(o.spec, JoinSpec)
            limited(o.spec, limit)  # refuses what can't have one
        return limit

    def idle(self) -> None:
        """Nothing waits here."""

    def publish(self, batch: int, said: Iterable[str]) -> dict[Edge, Sent]:
        """Send what the operators of a batch have drafted; a repeat sends nothing twice."""
        names: dict[Edge, list[str]] = defaultdict(list)
        for report in map(json.loads, said):
            if "sent" in report:
                names[Edge.named(report["sent"].split(".")[1])].append(report["sent"])
        outlets, sent = self.lists.at(batch).outlets, {}
        for edge, drafts in sorted(names.items(), key=lambda item: item[0].name):
            exchange = self.exchanges.over(edge)
            sent[edge] = exchange.publish(batch, settled(self.drafts.gather(drafts), outlets))
        self.drafts.clear(batch)
        return sent

    def end(self) -> None:
        """Tell all streams that they have ended."""
        self.exchanges.over(CONTROL).publish(0, [Parcel("", Kind.END, 0, None, 0)])


def _pack(stream: SourceStream, rows: DataFrame) -> DataFrame:
    # Spark's clock of the batch, not this one's: a repeat must judge alike.
    clock = f"unix_micros(current_timestamp()) AS `{WALL}`"
    selected = rows.selectExpr(*(f"{sql} AS `{name}`" for sql, name in stream.select), clock)
    return selected.mapInArrow(packer(_Pack(stream)), PACKET)


@dataclass(frozen=True)
class _Pack:
    stream: SourceStream

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Packet]:
        return pack_source(self.stream.pack, batch, batch.column(WALL)[0].as_py())

"""The plans of a run: compiles them for its session, and lets them take over from each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from thalweg.compile.compiler import Compiled
from thalweg.compile.inputs import TypedQuery
from thalweg.errors import UserError
from thalweg.exchange.disk import NEW_FOLDER
from thalweg.exchange.links import Link
from thalweg.exchange.parcel_file import Edge
from thalweg.files import write_text
from thalweg.plan.document import Plan
from thalweg.plan.options import Reporter, RunOptions
from thalweg.query import parse_over
from thalweg.query.model import Query
from thalweg.spark.folder import Folder
from thalweg.spark.host import SparkHost, compiled
from thalweg.spark.streams import info_of
from thalweg.spark.tally import Tally
from thalweg.spark.typing import typed_query
from thalweg.storage import Location


def as_begun(options: RunOptions, folder: Folder, reporter: Reporter) -> RunOptions:
    """A run that goes on keeps to the plan it began with; a planner with more or less time finds another."""
    path = folder.path / "plan.json"
    if not path.exists():
        write_text(path, json.dumps(options.plan.document(), indent=1))
        return options
    plan = _own(path)
    plan.check_is_of(options.queries, str(path))
    plan.check_fits(options.catalog, str(path))
    if [q.deployment for q in plan.queries] != [q.deployment for q in options.plan.queries]:
        reporter.message(f"goes on by its own plan; the one it began with is in {path}")
    return replace(options, plan=plan)


def _own(path: Location) -> Plan:
    """A plan that the run has written down. Another one would not fit its state."""
    try:
        return Plan.load(path)
    except UserError as error:
        raise UserError(error.what, where=error.where, remedy=NEW_FOLDER) from None


@dataclass
class Plans:
    """The plans of one run. `host` runs what they are compiled to; `queries` are those of the plan in force.

    A plan that takes over is known by the first batch of its operators; the first plan by 0.
    """

    spark: SparkSession
    options: RunOptions
    folder: Folder
    settled: dict[str, Any]
    schemas: dict[str, t.StructType]

    def __post_init__(self) -> None:
        self.queries: Sequence[Query] = self.options.queries
        self._renewed_to = 0
        self._known: dict[tuple[str, str], TypedQuery] = {}
        emulated = {
            Edge(e.source, e.target).name: Link(e.latency_s, e.bytes_per_s, e.jitter_s)
            for e in self.options.emulated
        }
        self.host = SparkHost(
            self.spark,
            self._compiled(self.options.plan, self.queries),
            self.folder.own,
            self.settled["run"],
            tuple(self.options.catalog.sites),
            self.folder.spill,
            emulated,
            self.options.memory,
        )
        self.host.settle()
        self.host.check(self.folder.tally().sent)
        self.renewed(self.folder.next_batch)

    @property
    def keeps(self) -> bool:
        """Whether the run keeps what other plans need to take over."""
        return bool(self.settled.get("keep"))

    def _compiled(self, plan: Plan, queries: Sequence[Query], **more: Any) -> Compiled:
        streams = self.options.catalog.streams
        return compiled(
            self.spark,
            [(self._typed(q), p.deployment) for q, p in zip(queries, plan.queries, strict=True)],
            [info_of(streams[name]) for name in self.schemas],
            {name: streams[name].site for name in self.schemas},
            keep_late=True,
            keep=self.keeps,
            **more,
        )

    def _typed(self, query: Query) -> TypedQuery:
        """Spark takes a fifth of a second for it, which a change of plan should not take."""
        key = query.name, query.text
        if key not in self._known:
            self._known[key] = typed_query(self.spark, query, self.schemas)
        return self._known[key]

    def take_over(self, batch: int, plan: Plan) -> int:
        """Let another plan take over after a batch that has just been published; returns its first batch.

        With the same queries it gets the windows of the plan before, where the run keeps them. With others it
        begins with empty windows.
        """
        tally, host, queries = self.folder.tally(), self.host, self._asked(plan)
        change = batch + 1
        made = self._compiled(
            plan,
            queries,
            numbers=host.numbers(queries),
            shape=host.compiled.shape,
            begin=self._progress(tally),
            generation=change,
        )
        plan.save(self.folder.plan_of(change))
        if queries is self.queries and self.keeps:
            host.move(batch, made, change, tally.after_all)
        else:
            host.switch(batch, made, tally.ended)
        return change

    def of(self, change: int) -> Plan:
        """The plan that took over with a batch."""
        return _own(self.folder.plan_of(change))

    def _progress(self, tally: Tally) -> dict[str, list[list[int]]]:
        """How far the streams have come: as their sources say, or by their greatest times."""
        streams = self.options.catalog.streams
        return {s: [[t - streams[s].lateness], [0]] for s, t in tally.newest.items()} | tally.progress

    def _asked(self, plan: Plan) -> Sequence[Query]:
        """The queries of a plan: those that run now, where it is of the same ones."""
        if [(q.query, q.text) for q in plan.queries] == [(q.name, q.text) for q in self.queries]:
            return self.queries
        known = self.options.catalog
        return [parse_over(known, q.text, name=q.query) for q in plan.queries]

    def renewed(self, batch: int) -> bool:
        """Take on what the programs up to this batch ask; whether another Spark query is needed for it."""
        before = self.queries
        for change in self.host.programs.firsts():
            if not self._renewed_to < change <= batch or not self.folder.plan_of(change).exists():
                continue  # known, or a further step on the way to the plan before
            self._renewed_to, plan = change, self.of(change)
            queries = self._asked(plan)
            if queries is not self.queries:
                shape, numbers = self.host.compiled.shape, self.host.numbers(queries)
                self.host.renew(self._compiled(plan, queries, shape=shape, numbers=numbers))
                self.queries = queries
        return self.queries is not before

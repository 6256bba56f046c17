"""Any SQL over random streams of any types at several sites, run in this process, against DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.planners.examples import catalog, query, stream
from tests.simulate.sites_cases import TIME, drive_rows, evaluate, labels
from thalweg.catalog.model import Source, Stats, Stream
from thalweg.compile.compiler import compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.compile.query_fields import field_named
from thalweg.names import LIVE, SLOT, TIMELESS
from thalweg.operators.program import Program
from thalweg.operators.spec import START
from thalweg.oracle import duck, reference
from thalweg.oracle.statement import columns_of, types_of
from thalweg.oracle.translate import translate
from thalweg.plan.operators import Sink
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.query.model import Equality, Expr
from thalweg.simulate.host import SimulatedHost
from thalweg.units import BEFORE_ALL

KINDS = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "timestamp": TIME}
KINDS |= {"bigint": pa.int64(), "boolean": pa.bool_()}
LONGS = {"x": "long", "y": "long", "id": "long"}
W, N = "[RANGE 20 MILLISECONDS]", "[RANGE 10 MILLISECONDS]"


def known_of(sites, columns=LONGS, popular=()):
    """Streams a, b, ... at these sites; their columns for all, or by stream.

    Each value of `popular` is so at one of the streams, so that parts of the key space pay.
    """
    found = []
    for i, (name, site) in enumerate(zip("abcd", sites, strict=False)):
        own = columns.get(name, columns) if isinstance(next(iter(columns.values())), dict) else columns
        stats = {"rate": 300.0}
        if popular:
            stats = {"rates": {"x": {v: 1000.0 if j % 3 == i else 1.0 for j, v in enumerate(popular)}}}
        one = stream(name, f"n{site}", own, distinct=dict.fromkeys(own, 4.0), **stats)
        found.append(one.model_copy(update={"lateness": 10_000, "order": ("id",)}))
    return catalog(found, sites=["n0", "n1", "n2", "n3"])


def with_table(known, name, site, columns=LONGS, refresh=None, **stats):
    """The catalog with a table."""
    one = Stream.of_table(name, f"n{site}", columns, Source(format="parquet"), Stats(**stats), refresh)
    return known.model_copy(update={"streams": {**known.streams, name: one}})


def value(kind, rng, nulls):
    if rng.random() < nulls:
        return None
    if kind == "double":
        return rng.choice([0.0, -0.0, math.nan, 1.5, 2.5])
    return str(rng.randrange(4)) if kind == "string" else rng.randrange(4)


def rows_of(known, seed, nulls=0.05):
    rng = random.Random(seed)
    out = {}
    for name, one in known.streams.items():
        if one.table:
            counts = [6] if one.refresh is None else [rng.randrange(1, 8) for _ in range(rng.randrange(1, 6))]
            made = iter(range(100))

            def row(kinds=one.columns, made=made):
                return {**{c: value(k, rng, nulls) for c, k in kinds.items()}, "id": next(made)}

            versions = [[row() for _ in range(n)] for n in counts]
            out[name] = versions[0] if one.refresh is None else slotted(one, versions)
            continue
        clock, rows = 0, []
        for i in range(25):
            clock += rng.randrange(8)
            row = {c: value(k, rng, nulls) for c, k in one.columns.items()}
            rows.append({**row, "ts": max(0, clock - rng.choice([0, 0, 0, 7])) * 1000, "id": i})
        out[name] = rows
    return out


def slotted(one, versions):
    """The versions of a table with the places of their rows; places that fall free get no row."""
    found, before = [], 0
    for rows in versions:
        none = [dict.fromkeys(one.columns)] * (before - len(rows))
        found.append([{**r, SLOT: i, LIVE: i < len(rows)} for i, r in enumerate([*rows, *none])])
        before = len(rows)
    return found


def kinds_of(one):
    return {c: KINDS[k] for c, k in {**one.columns, **one.hidden}.items()}


def table(one, rows):
    kinds = kinds_of(one)
    always = {TIMELESS: BEFORE_ALL} if one.table and one.refresh is None else {}
    columns = [pa.array([{**r, **always}[c] for r in rows], k) for c, k in kinds.items()]
    return pa.record_batch(columns, names=list(kinds))


def infos_of(known):
    return {
        n: StreamInfo(n, kinds_of(s), s.time, s.lateness, order=s.order, follows=s.refresh is not None)
        for n, s in known.streams.items()
    }


def typed(known, asked):
    """The query with types, where Spark would compare numbers with text: as text."""

    def kind(expr):
        if expr.is_constant:
            return pa.bool_()
        (alias,) = expr.aliases
        column = expr.plain_column
        return KINDS[known.streams[asked.input(alias).stream].columns[column]] if column else pa.int64()

    def cast(e):
        sides = [e.left, e.right]
        if kind(sides[0]) != kind(sides[1]):
            sides = [s if kind(s) == pa.string() else Expr(f"CAST({s.sql} AS VARCHAR)") for s in sides]
        return Equality(*sides)

    equalities = tuple(cast(e) for e in asked.equalities)
    outer = tuple(tuple(cast(e) for e in one.equalities) for one in asked.outer)
    kinds = {
        s.sql: pa.string() if "CAST" in s.sql else kind(s)
        for e in (*equalities, *(e for one in outer for e in one))
        for s in (e.left, e.right)
    }
    return TypedQuery(asked, equalities, kinds, outer)


def made_of(known, planned, infos=None, keep=False):
    made = compile_plan(
        [(typed(known, q), d) for q, d in planned],
        infos or infos_of(known),
        {n: s.site for n, s in known.streams.items()},
        buckets=2,
        labels=labels,
        keep_late=False,
        keep=keep,
    )
    return replace(made, program=Program.from_json(made.program.to_json()))


def planned_by(known, sqls, name, objective="bytes", **settings):
    session = Session(known, PlanOptions(name, Objective(objective), None, settings))
    asked = [query(sql, known, f"q{i}") for i, sql in enumerate(sqls)]
    return [(q, session.deploy(q, planner(name)).deployment) for q in asked]


@dataclass
class Batches(SimulatedHost):
    """Keeps the results of each batch apart: the groups of a batch must be whole."""

    apart: list[dict[int, list[pa.RecordBatch]]] = field(default_factory=list)

    def batch(self, *given: Any, **more: Any) -> Any:
        before = {number: len(parts) for number, parts in self.results.items()}
        sent = super().batch(*given, **more)
        self.apart.append({n: parts[before.get(n, 0) :] for n, parts in self.results.items()})
        return sent


def given_out(con, known, asked, same, parts) -> Counter:
    """Results that left in one batch, with conditions, output columns and groups evaluated."""
    if not parts:
        return Counter()
    rows, types = pa.Table.from_batches(parts), types_of(asked, known)
    members, names = [], {}
    for n, alias in enumerate(asked.aliases):
        names[alias] = f"m{n}"
        own = [(c, field_named(*same.get((alias, c), (alias, c)))) for c in types[alias]]
        there = [(c, carrier) for c, carrier in own if carrier in rows.column_names]
        packed = ", ".join(f'"{c}" := "{carrier}"' for c, carrier in [*there, ("@", "#start")])
        members.append(f"struct_pack({packed}) AS m{n}")
    columns, groups = columns_of(asked, types, names, 'make_timestamptz("#start")')
    where = " AND ".join(f"({translate(c, types, names)})" for c in asked.conditions) or "true"
    con.register("rows", rows)
    source = f'(SELECT "#start", {", ".join(members)} FROM rows)'
    return Counter(con.execute(f"SELECT {', '.join(columns)} FROM {source} WHERE {where}{groups}").fetchall())


def leave_together(slide, apart) -> bool:
    """Whether all results of a slide, or of a window of groups, left in one batch."""
    windows = [{t // slide for part in parts for t in part.column(START).to_pylist()} for parts in apart]
    return sum(map(len, windows)) == len(set().union(*windows))


def check(known, planned, seed, nulls=0.05, keep=False):
    """Run planned queries over random rows, and compare each with DuckDB; returns the host."""
    made = made_of(known, planned, keep=keep)
    host = Batches(made, evaluate)
    rows = rows_of(known, seed, nulls)
    tables = known.tables
    batches = drive_rows(
        host,
        rows,
        lambda name, part: table(known.streams[name], part),
        seed,
        tables=tables - known.refreshed,
        refreshed=known.refreshed,
    )
    kept = {
        n: [row for batch in b for row in batch]
        if n in tables
        else reference.late_split(b, known.streams[n].lateness)[0]
        for n, b in batches.items()
    }
    for number, (asked, deployment) in enumerate(planned):
        tables = {n: pa.Table.from_batches([table(known.streams[n], r)]) for n, r in kept.items()}
        result = made.results[number]
        apart = [parts.get(number, []) for parts in host.apart]
        if asked.slide is not None and sum(isinstance(o, Sink) for o in deployment.operators) == 1:
            assert leave_together(asked.slide, apart), asked.text
        if asked.groups is None:
            apart = [[part for parts in apart for part in parts]]
        with duck.connect() as con:
            duck.load(con, asked, known, read_static=lambda one, held=tables: held[one.name])
            wanted = Counter(con.execute(duck.expected_sql(asked, known)).fetchall())
            found = Counter()
            for parts in apart:
                found += given_out(con, known, result.query, result.same, parts)
        assert found == wanted, f"{asked.text}: missing {wanted - found}, extra {found - wanted}"
    return host


def ids(aliases, froms, where):
    return f"SELECT {', '.join(f'{a}.id AS {a}_id' for a in aliases)} FROM {froms} WHERE {where}"

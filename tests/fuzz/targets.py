"""The readers that the fuzzer gives bytes to. They refuse bad input with a UserError or a ValueError only."""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from thalweg.catalog import load
from thalweg.compile.compiler import compile_plan
from thalweg.errors import UserError
from thalweg.exchange.parcel_file import Edge, Label, encode, read_parcels
from thalweg.operators.program import Program
from thalweg.oracle.translate import translate
from thalweg.plan.document import Plan
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.query.model import Expr
from thalweg.wire import codec
from thalweg.wire.parcel import Kind, Parcel

CATALOG = """sites: {n1: {}, n2: {}, n3: {}}
links:
  default: {latency_ms: 10, mbps: 100}
  pairs: [{between: [n1, n2], latency_ms: 5, mbps: 10, usd_per_gb: 0.1}]
streams:
  a: {site: n1, time: ts, lateness: 1 s, order: [id], schema: {ts: timestamp, k: long, s: string, id: int},
      source: {format: parquet, options: {path: a}}, stats: {rates: {k: {1: 5, 2: 100, 3: 1}}}}
  b: {site: n2, time: ts, idle: 3 s, schema: {ts: timestamp, k: int, s: string, d: "decimal(20,2)"},
      source: {format: json, options: {path: b}}, stats: {rate: 50, distinct: {k: 3}, widths: {s: 12}}}
  c: {site: n3, time: at, max_ahead: 1 day, schema: {at: timestamp_ntz, k: long, s: string},
      source: {format: csv, options: {path: c}}, stats: {rate: 10}}
joins: [{left: a.k, right: b.k, selectivity: 0.2}]
costs: {probe_s: 1.0e-7}
"""
QUERY = """SELECT a.id, upper(b.s) AS u, c.k + 1 AS n, result_time
FROM a [RANGE 5 SECONDS], b [ROWS 10] JOIN c [RANGE 1 MINUTE SLIDE 10 SECONDS] ON b.k = c.k
WHERE a.k = b.k AND a.s LIKE 'x%' AND b.d < 10 AND a.id <> c.k"""
PLAIN = "SELECT a.id, b.s, c.k FROM a [RANGE 5 S], b [RANGE 5 S], c [RANGE 5 S] WHERE a.k = b.k AND b.k = c.k"


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="thalweg-fuzz-"))


def file(data: bytes) -> Path:
    path = folder() / "input"
    path.write_bytes(data)
    return path


@functools.cache
def known():
    return load(file(CATALOG.encode()))


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def catalog(data: bytes) -> None:
    read = load(file(data))
    make_plan([], read, PlanOptions("simple", Objective("bytes"), None, {}))


def query(data: bytes) -> None:
    asked = parse(text(data), name="q", schemas=known().schemas)
    if len(asked.inputs) <= 4:
        make_plan([asked], known(), PlanOptions("simple", Objective("bytes"), None, {}))


def expression(data: bytes) -> None:
    """An expression in the SELECT list, and as the oracle has it for DuckDB."""
    sql = f"SELECT {text(data)} AS x FROM a [RANGE 5 S], b [RANGE 5 S] WHERE a.k = b.k"
    asked = parse(sql, name="q", schemas=known().schemas)
    types = {alias: dict(known().streams[alias].columns) for alias in asked.aliases}
    for output in asked.outputs:
        assert isinstance(output.expr, Expr)
        with contextlib.suppress(UserError):
            translate(output.expr, types, {a: a for a in asked.aliases})


@functools.cache
def asked():
    return parse(PLAIN, name="q", schemas=known().schemas)


def plan(data: bytes) -> None:
    """A plan of a query that is known, to what sites run."""
    made = Plan.load(file(data))
    made.check_is_of([asked()], "plan.json")
    made.check_fits(known(), "plan.json")
    program_of(made)


def program_of(made: Plan) -> Program:
    from tests.simulate.sites_cases import labels
    from thalweg.compile.inputs import StreamInfo, TypedQuery

    kinds = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
    kinds |= {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}
    streams = known().streams
    infos = {
        n: StreamInfo(n, {c: kinds.get(k, pa.float64()) for c, k in s.columns.items()}, s.time, s.lateness)
        for n, s in streams.items()
    }
    sides = {side.sql: pa.int64() for e in asked().equalities for side in (e.left, e.right)}
    typed = TypedQuery(asked(), asked().equalities, sides)
    planned = [(typed, q.deployment) for q in made.queries]
    at = {n: s.site for n, s in streams.items()}
    return compile_plan(planned, infos, at, buckets=2, labels=labels, keep_late=True).program


def program(data: bytes) -> None:
    read = Program.from_json(data)
    assert Program.from_json(read.to_json()) == read


EDGE = Edge("n1", "n2")


def parcel_file(data: bytes) -> None:
    read_parcels(file(data), "run", EDGE, 1)


SCHEMA = pa.schema(
    [
        *(("#start", pa.int64()), ("i", pa.int32()), ("s", pa.string()), ("d", pa.float64())),
        *(("b", pa.bool_()), ("n", pa.decimal128(20, 2)), ("t", pa.timestamp("us", "UTC"))),
    ]
)


def parcel(data: bytes) -> None:
    found = codec.decode(data, SCHEMA)
    found.validate(full=True)
    assert codec.decode(codec.encode(found), SCHEMA).equals(found, check_metadata=False) or _has_nan(found)


def _has_nan(batch: pa.RecordBatch) -> bool:
    return any(v != v for v in batch.column("d").to_pylist())


TARGETS: dict[str, Callable[[bytes], None]] = {
    f.__name__: f for f in (catalog, query, expression, plan, program, parcel_file, parcel)
}


def check(target: str, data: bytes) -> None:
    """Give a target its input: it takes or refuses it, and anything else is a fault."""
    with contextlib.suppress(UserError, ValueError):
        TARGETS[target](data)


def seeds() -> dict[str, list[bytes]]:
    """Good inputs to begin with."""
    plans = []
    for planner, settings in (("optimal", {}), ("pmjoin", {}), ("semijoin-greedy", {}), ("simple", {})):
        made = make_plan([asked()], known(), PlanOptions(planner, Objective("bytes"), None, settings))
        plans.append(json.dumps(made.document()).encode())
    rows = pa.record_batch(
        [
            *([1, 2, 2**40], [1, None, -3], ["x", "", None], [0.5, None, 1e300]),
            *([True, None, False], [None, None, None], [0, 1, None]),
        ],
        schema=SCHEMA,
    )
    parcels = [Parcel(0, Kind.TUPLES, rows.num_rows, 5, 6, 7, codec.encode(rows))]
    parcels += [replace(parcels[0], n=0, data=b"", shipment=1)]
    expressions = ("a.k + 1", "upper(b.s) || 'x'", "CASE WHEN a.k > 1 THEN b.d END", "cast(a.s AS date)")
    return {
        "catalog": [CATALOG.encode()],
        "query": [QUERY.encode(), PLAIN.encode()],
        "expression": [e.encode() for e in expressions],
        "plan": plans,
        "program": [program_of(Plan.load(file(p))).to_json() for p in plans],
        "parcel_file": [encode(Label("run", EDGE, 1, 1), 1.0, parcels)],
        "parcel": [codec.encode(rows), codec.encode(rows, compress=False)],
    }

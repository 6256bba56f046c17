"""Random streams at several sites, run by a plan in this process, delayed and crashed, against the rule."""

from __future__ import annotations

import functools
import itertools
import random
import zlib
from collections import Counter
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from tests.planners.examples import catalog, query, random_sequences, stream
from thalweg.compile.compiler import Compiled, compile_plan
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.compile.query_fields import field_of
from thalweg.names import TIMELESS
from thalweg.operators.program import Program
from thalweg.oracle import duck, reference
from thalweg.plan.check import check_deployments
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, make_plan, planner
from thalweg.query.model import Query
from thalweg.simulate.host import SimulatedHost
from thalweg.units import BEFORE_ALL

KINDS = {"long": pa.int64(), "string": pa.string()}
TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Case:
    """A query over random streams at sites of their own."""

    seed: int
    kind: str = "long"
    shape: str = "star"  # star: one key; pair: a key of two columns; chain: a.x = b.x, b.y = c.x, ...
    windows: tuple[str, ...] = ("RANGE 20 MILLISECONDS",) * 4
    sites: tuple[int, ...] = (0, 1, 2, 3)
    tuples: int = 30
    keys: int = 4
    spread_ms: int = 100
    lateness_ms: int = 10
    buckets: int = 2
    filtered: bool = False
    deliver: bool = False
    nulls: float = 0.03
    idle: int | None = None  # in microseconds of the wall clock


ALIASES = "abcdef"
WINDOWS = ["RANGE 20 MILLISECONDS", "RANGE 0 MILLISECONDS", "ROWS 3", "UNBOUNDED", "RANGE 7 MILLISECONDS"]
LATER = [
    "TUMBLE 15 MILLISECONDS",
    "PARTITION BY x ROWS 1",
    "PARTITION BY y ROWS 2",
    "PARTITION BY y, x ROWS 1",
]
PARTS = ({"partitioner": "hash"}, {"partitioner": "range"}, {"partitioner": "rate"})


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    windows = tuple(rng.choice(WINDOWS if rng.random() < 0.5 else WINDOWS[:1]) for _ in range(4))
    more = random.Random(f"{seed} later")  # so that the cases of a seed stay what they were
    if more.random() < 0.4:
        windows = tuple(more.choice(LATER) if more.random() < 0.5 else w for w in windows)
    case = Case(
        seed=seed,
        kind=rng.choice(["long", "string"]),
        shape=rng.choice(["star", "pair", "chain"]),
        windows=windows,
        tuples=rng.choice([5, 20, 30]),
        keys=rng.choice([1, 4, 10]),
        buckets=rng.choice([1, 2, 3]),
        filtered=rng.random() < 0.4,
        deliver=rng.random() < 0.3,
        lateness_ms=rng.choice([0, 10]),
    )
    if rng.random() < 0.3:  # some of them at the same site
        case = replace(case, sites=tuple(rng.randrange(4) for _ in windows))
    if case.keys == 1 or windows.count("UNBOUNDED") > 1:
        case = replace(case, tuples=8)  # or everything would meet everything
    return case


def sql_of(case: Case) -> str:
    names = ALIASES[: len(case.windows)]
    conditions = []
    for before, a in itertools.pairwise(names):
        if case.shape == "chain":
            conditions.append(f"{before}.y = {a}.x")
        else:
            conditions.append(f"{before}.x = {a}.x")
            if case.shape == "pair":
                conditions.append(f"{before}.y = {a}.y")
    if case.filtered:
        conditions += ["a.id % 3 <> 0", f"{names[-1]}.id > 2", "a.v + b.v < 12", "a.v <= b.id"]
    froms = ", ".join(f"{a} [{w}]" for a, w in zip(names, case.windows, strict=True))
    columns = ", ".join(f"{a}.{c} AS {a}_{c}" for a in names for c in ("id", "x"))
    columns += f", {names[-1]}.ts AS last_ts, result_time"
    return f"SELECT {columns} FROM {froms} WHERE {' AND '.join(conditions)}"


def catalog_of(case: Case):
    kind = "long" if case.kind == "long" else "string"
    columns = {"x": kind, "y": kind, "v": "long", "id": "long"}
    rate = case.tuples / (case.spread_ms / 1000)
    found = []
    for n, a in enumerate(ALIASES[: len(case.windows)]):
        rates = {"x": {key(case, k): rate / case.keys for k in range(case.keys)}}
        one = stream(
            a, f"n{case.sites[n]}", columns, rate=rate, distinct={"x": case.keys, "y": case.keys}, rates=rates
        )
        found.append(one.model_copy(update={"lateness": case.lateness_ms * 1000, "order": ("id",)}))
    return catalog(found, sites=[f"n{s}" for s in sorted({*case.sites, 0, 1, 2, 3})])


def key(case: Case, k: int | None):
    if k is None:
        return None
    return k if case.kind == "long" else "k" * (k % 3) + str(k)


def rows_of(case: Case) -> dict[str, list[dict]]:
    rng = random.Random(case.seed)
    out = {}
    for a in ALIASES[: len(case.windows)]:
        clock, rows = 0, []
        for i in range(case.tuples):
            clock += rng.randrange(2 * 1000 * case.spread_ms // case.tuples)
            ts = clock - rng.choice([0, 0, 0, rng.randrange(12_000)])
            if rng.random() < 0.2 and rows:
                ts = rows[-1]["ts"] if rows[-1]["ts"] is not None else ts  # ties
            x = None if rng.random() < case.nulls else rng.randrange(case.keys)
            y = None if rng.random() < case.nulls else rng.randrange(case.keys)
            ts = None if rng.random() < 0.02 else ts // 1000 * 1000
            rows.append({"ts": ts, "x": key(case, x), "y": key(case, y), "v": rng.randrange(10), "id": i})
        out[a] = rows
    return out


def table(case: Case, rows: list[dict]) -> pa.RecordBatch:
    kind = KINDS[case.kind]
    types = {"ts": TIME, "x": kind, "y": kind, "v": pa.int64(), "id": pa.int64()}
    return pa.record_batch([pa.array([r[c] for r in rows], t) for c, t in types.items()], names=list(types))


def typed(query_: Query, case: Case) -> TypedQuery:
    return TypedQuery(
        query_,
        query_.equalities,
        {s.sql: KINDS[case.kind] for e in query_.equalities for s in (e.left, e.right)},
    )


def infos_of(case: Case, known) -> dict[str, StreamInfo]:
    kind = KINDS[case.kind]
    columns = {"ts": TIME, "x": kind, "y": kind, "v": pa.int64(), "id": pa.int64()}
    return {
        n: StreamInfo(n, columns, "ts", s.lateness, idle=case.idle, order=("id",))
        for n, s in known.streams.items()
    }


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all tests: opening it takes longer than what is asked of it."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    return db


def evaluate(batch: pa.RecordBatch, select: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch])  # noqa: F841
    terms = ", ".join(f'{sql.replace("`", chr(34))} AS "{name}"' for sql, name in select)
    found = _database().sql(f"SELECT {terms} FROM rows").to_arrow_table()
    return pa.record_batch(
        [
            found.column(n).combine_chunks().cast(TIME) if n == "t" else found.column(n).combine_chunks()
            for _, n in select
        ],
        names=[n for _, n in select],
    )


def compiled(case: Case, known, planned: list[tuple[Query, object]], **more) -> Compiled:
    check_deployments(planned)
    made = compile_plan(
        [(typed(q, case), d) for q, d in planned],
        infos_of(case, known),
        {n: s.site for n, s in known.streams.items()},
        buckets=case.buckets,
        labels=labels,
        keep_late=keeps_late(case),
        **more,
    )
    return replace(made, program=Program.from_json(made.program.to_json()))  # as it travels: as data


def keeps_late(case: Case) -> bool:
    """Whether late tuples are kept, or only counted."""
    return case.seed % 2 == 0


def labels(place: str, count: int) -> list[int]:
    return [zlib.crc32(f"{place}/{b}".encode()) & 0x3FFFFFFF for b in range(count)]


def drive(case: Case, made: Compiled, rows: dict[str, list[dict]], *, crashes: float = 0.2):
    """Run it: streams at random paces, parcels delayed at random, some batches repeated after a crash."""
    host = SimulatedHost(made, evaluate)
    return host, drive_rows(host, rows, lambda _, part: table(case, part), case.seed, crashes)


def drive_rows(
    host: SimulatedHost,
    rows,
    as_batch,
    seed: int,
    crashes: float = 0.2,
    tables=frozenset(),
    refreshed=frozenset(),
) -> dict[str, list[list[dict]]]:
    """The batches in which the rows of each stream came; those of tables come at once.

    Of tables that are refreshed, the rows are versions. Each begins after all that has come before it.
    """
    rng = random.Random(seed + 1)
    left = {a: list(r) for a, r in rows.items()}
    batches: dict[str, list[list[dict]]] = {a: [] for a in rows}
    ended, newest = False, BEFORE_ALL - 1
    for _ in range(100_000):
        fresh = {}
        for a, rest in left.items():
            if a in refreshed:
                n = 1 if rest and (not batches[a] or rng.random() < 0.4) else 0
                chosen = [{**row, TIMELESS: newest + 1} for version in rest[:n] for row in version]
            else:
                n = len(rest) if a in tables else rng.choice([0, 0, 1, 3, 10, 40])
                chosen = rest[:n]
            left[a] = rest[n:]
            if chosen:
                batches[a].append(chosen)
                fresh[a] = as_batch(a, chosen)
        times = {a: TIMELESS if a in refreshed else "ts" for a in fresh if a not in tables}
        known = [row[time] for a, time in times.items() for row in batches[a][-1]]
        newest = max([newest, *(ts for ts in known if ts is not None)])
        waiting = host.waiting
        take = {w: rng.randint(0, n) for w, n in waiting.items() if rng.random() < 0.6}
        ending = not ended and not any(left.values()) and not fresh and rng.random() < 0.5
        ended |= ending
        crash = rng.randrange(5) if rng.random() < crashes else None
        if ending:
            host.end()
        if fresh or ending or any(take.values()):
            host.batch(fresh, {w: n for w, n in take.items() if n}, crash_after=crash)
        if rng.random() < 0.2:
            host.caches.clear()
        if ended and not host.waiting:
            break
    return batches


def expected(case: Case, query_: Query, batches: dict[str, list[list[dict]]]) -> Counter:
    kept = {a: reference.late_split(b, case.lateness_ms * 1000)[0] for a, b in batches.items()}
    combinations = [((), float("-inf"), float("inf"))]
    for a in query_.aliases:
        rows = kept[a]
        intervals = reference.alive(reference.Stream(rows, query_.input(a).window, order=("id",)))
        extended = []
        for members, start, end in combinations:
            for i, (lo, hi) in intervals.items():
                row = rows[i]
                if max(start, lo) <= min(end, hi) and (not members or matches(case, members[-1], row)):
                    extended.append(((*members, row), max(start, lo), min(end, hi)))
        combinations = extended
    if case.filtered:
        combinations = [c for c in combinations if c[0][0]["id"] % 3 and c[0][-1]["id"] > 2]
    return Counter(
        (*(row["id"] for row in members), *(row["x"] for row in members), start)
        for members, start, _ in combinations
        if not case.filtered or _passes(members[0], members[1])
    )


def _passes(a: dict, b: dict) -> bool:
    return a["v"] + b["v"] < 12 and a["v"] <= b["id"]


def matches(case: Case, before: dict, row: dict) -> bool:
    if case.shape == "chain":
        return reference.equal(before["y"], row["x"])
    return reference.equal(before["x"], row["x"]) and (
        case.shape == "star" or reference.equal(before["y"], row["y"])
    )


def found(case: Case, query_: Query, host: SimulatedHost, same, number: int = 0) -> Counter:
    """What came out; the query's conditions between streams are left to whoever hands results out."""
    rows = [row for part in host.results.get(number, []) for row in part.to_pylist()]
    if case.filtered:
        rows = [r for r in rows if r["a.v"] + r["b.v"] < 12 and r["a.v"] <= r["b.id"]]
    return Counter(
        (*(r[f"{a}.id"] for a in query_.aliases), *(_value(r, a, same) for a in query_.aliases), r["#start"])
        for r in rows
    )


def _value(row: dict, alias: str, same: dict[tuple[str, str], tuple[str, str]]):
    """The column x of an alias; where it equals another one's, that one stands for it."""
    return row[".".join(same.get((alias, "x"), (alias, "x")))]


def check_counts(case: Case, host: SimulatedHost, batches: dict[str, list[list[dict]]]) -> None:
    """Every tuple is counted once, and every late one is counted and kept once."""
    for name, own in batches.items():
        late = reference.late_split(own, case.lateness_ms * 1000)[1]
        assert host.report.read.get(name, 0) == sum(map(len, own))
        assert host.report.late.get(name, 0) == len(late)
        kept = [row for part in host.late.get(name, []) for row in part.to_pylist()]
        assert sorted(row["id"] for row in kept) == sorted(r["id"] for r in late if keeps_late(case))


def check(case: Case, make_deployment, **more) -> SimulatedHost:
    """Plan, run and compare. `make_deployment(query, catalog)` gives the deployment."""
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    deployment = make_deployment(asked, known)
    made = compiled(case, known, [(asked, deployment)], **more)
    host, batches = drive(case, made, rows_of(case))
    check_counts(case, host, batches)
    assert found(case, asked, host, made.results[0].same) == expected(case, asked, batches)
    return host


def check_planner(name: str, case: Case, **more) -> SimulatedHost:
    """Plan with a planner, run and compare; parts of the key space by different partitioners."""
    settings = {"partitions": "3", **PARTS[case.seed % 3]} if name.startswith("pmjoin") else {}
    return check(case, by_planner(name, case, **settings), **more)


def by_planner(name: str, case: Case, **settings):
    def make(asked, known):
        options = PlanOptions(name, Objective("bytes"), "n3" if case.deliver else None, settings)
        return Session(known, options).deploy(asked, planner(name)).deployment

    return make


def by_split(name: str, case: Case, mode: str):
    """What a planner makes, with its joins split."""

    def make(asked, known):
        options = PlanOptions(name, Objective("bytes"), "n3" if case.deliver else None, {"split": mode})
        return make_plan([asked], known, options).queries[0].deployment

    return make


def by_sequences(seed: int, methods):
    """Random probe sequences by the methods given."""

    def make(asked, known):
        rng = random.Random(seed)
        session = Session(known, PlanOptions("linear-optimal", Objective("bytes"), None, {}))
        problem = session.problem(asked)
        return random_sequences(problem, rng, lambda: rng.choice(methods))

    return make


def by_duckdb(asked: Query, known, kept: dict[str, list[dict]], case: Case) -> Counter:
    """A query's results over static tables."""
    tables = {a: pa.Table.from_batches([table(case, rows)]) for a, rows in kept.items()}
    with duck.connect() as con:
        duck.load(con, asked, known, read_static=lambda one: tables[one.name])
        return Counter(con.execute(duck.expected_sql(asked, known)).fetchall())


def handed_out(asked: Query, parts: list[pa.RecordBatch], same) -> Counter:
    """What came out, with the conditions between streams and the output expressions evaluated."""
    if not parts:
        return Counter()

    def named(alias: str, column: str) -> str:
        alias, column = same.get((alias, column), (alias, column))
        return f'"{alias}.{field_of(column)}"' if alias else 'make_timestamptz("#start")'

    out = ", ".join(o.expr.rename(named) for o in asked.outputs)
    where = " AND ".join(f"({c.rename(named)})" for c in asked.conditions) or "true"
    rows = pa.Table.from_batches(parts)  # noqa: F841
    with duck.connect() as con:
        return Counter(con.execute(f"SELECT {out} FROM rows WHERE {where}").fetchall())


def check_several(case: Case, asked_sql: dict[str, str], name: str, **more) -> tuple[SimulatedHost, list]:
    """Several queries planned one after another, run together, each against DuckDB."""
    known = catalog_of(case)
    session = Session(known, PlanOptions(name, Objective("bytes"), None, {}))
    asked = [query(sql, known, n) for n, sql in asked_sql.items()]
    planned = [(q, session.deploy(q, planner(name)).deployment) for q in asked]
    made = compiled(case, known, planned, **more)
    host, batches = drive(case, made, rows_of(case))
    read = {i.stream for q in asked for i in q.inputs}
    check_counts(case, host, {a: b for a, b in batches.items() if a in read})
    kept = {a: reference.late_split(b, case.lateness_ms * 1000)[0] for a, b in batches.items()}
    for number, (q, plan) in enumerate(zip(asked, made.results, strict=True)):
        # The conditions of the result's own query: a plan may leave some of its equalities to the results.
        found_ = handed_out(plan.query, host.results.get(number, []), plan.same)
        assert found_ == by_duckdb(q, known, kept, case), q.name
    return host, planned


def several_of(case: Case, count: int) -> dict[str, str]:
    """Queries over the same streams that have much in common, and differ in windows, filters and columns."""
    rng = random.Random(case.seed + 7)
    found = {}
    for n in range(count):
        names = sorted(rng.sample(ALIASES[: len(case.windows)], rng.randint(2, len(case.windows))))
        if case.shape == "chain":
            first = rng.randrange(len(case.windows) - 1)
            names = list(ALIASES[first : rng.randint(first + 2, len(case.windows))])
        conditions = []
        for before, a in itertools.pairwise(names):
            on = ("y", "x") if case.shape == "chain" else ("x", "x")
            conditions.append(f"{before}.{on[0]} = {a}.{on[1]}")
            if case.shape == "star" and rng.random() < 0.2:
                conditions.append(f"{before}.y = {a}.y")
        windows = {
            a: rng.choice(["RANGE 20 MILLISECONDS"] * 3 + ["RANGE 10 MILLISECONDS", case.windows[0]])
            for a in names
        }
        for a in names:
            conditions += rng.choice([[], [], [f"{a}.v > 3"], [f"{a}.v > 5"], [f"{a}.v BETWEEN 4 AND 8"]])
        if rng.random() < 0.3:
            conditions.append(f"{names[0]}.v + {names[1]}.v < 12")
        if rng.random() < 0.3:
            conditions.append(f"{names[0]}.v <= {names[-1]}.v")
        columns = ", ".join(
            f"{a}.{c} AS {a}_{c}" for a in names for c in rng.choice([("id",), ("id", "v"), ("id", "ts")])
        )
        froms = ", ".join(f"{a} [{windows[a]}]" for a in names)
        found[f"q{n}"] = f"SELECT {columns}, result_time FROM {froms} WHERE {' AND '.join(conditions)}"
    return found

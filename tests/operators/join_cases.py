"""Random streams at one site, cut into random batches, and what the rule says of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from tests.operators.one_site import compiled
from thalweg.compile.compiler import Compiled
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.compile.stages import Shape
from thalweg.oracle import reference
from thalweg.plan.deployment import Deployment, Edge
from thalweg.plan.operators import Join, JoinTree, Operator, Sink, Source
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

ALIASES = "abcdef"
KINDS = {
    "long": (pa.int64(), lambda x: x),
    "string": (pa.string(), lambda x: "k" * (x % 5) + str(x)),
    "decimal": (pa.decimal128(30, 2), lambda x: None),
    "double": (pa.float64(), lambda x: [0.0, -0.0, float("nan"), 1.5][x % 4]),
    "list": (pa.list_(pa.int64()), lambda x: [x, None, x % 2]),
}


@dataclass(frozen=True)
class Case:
    """A query over random streams, cut into random batches."""

    kind: str
    windows: tuple[Window, ...]
    shape: str  # star: one key; pair: a key of two columns; chain: a.x = b.x, b.y = c.x, ...
    lateness: tuple[int, ...]
    buckets: int
    seed: int
    tuples: int
    spread: int
    keys: int
    disorder: int


def value(kind: str, x: int | None):
    if x is None:
        return None
    if kind == "decimal":
        return Decimal(x * 10**20) / Decimal(100)
    return KINDS[kind][1](x)


windows = st.one_of(
    st.builds(Window, st.just(WindowKind.RANGE), st.sampled_from([0, 1, 5, 20, 1000])),
    st.builds(Window, st.just(WindowKind.ROWS), st.sampled_from([1, 2, 7, 100])),
    st.builds(
        Window,
        st.just(WindowKind.ROWS),
        st.sampled_from([1, 2]),
        st.none(),
        st.sampled_from([("x",), ("y",), ("y", "x"), ("id",)]),
    ),
    st.builds(Window, st.just(WindowKind.TUMBLE), st.sampled_from([1, 5, 20, 1000])),
    st.just(Window(WindowKind.UNBOUNDED)),
)


def countable(case: Case) -> Case:
    """Rows are not counted by an array or a struct."""
    if pa.types.is_nested(KINDS[case.kind][0]):
        by_id = (replace(w, by=("id",)) if w.by else w for w in case.windows)
        return replace(case, windows=tuple(by_id))
    return case


cases = st.integers(2, 6).flatmap(
    lambda n: st.builds(
        Case,
        kind=st.sampled_from(sorted(KINDS)),
        windows=st.tuples(*[windows] * n)
        | st.tuples(*[windows.filter(lambda w: w.kind is WindowKind.RANGE)] * n),
        shape=st.sampled_from(["star", "pair", "chain"]),
        lateness=st.tuples(*[st.sampled_from([0, 3, 50])] * n),
        buckets=st.integers(1, 3),
        seed=st.integers(0, 10**6),
        tuples=st.sampled_from([0, 5, 8, 20, 40]),
        spread=st.sampled_from([10, 60, 300]),
        keys=st.sampled_from([1, 3, 12]),
        disorder=st.sampled_from([0, 5, 40]),
    ).map(countable)
)


def query_of(case: Case) -> Query:
    def col(a: str, c: str) -> Expr:
        return Expr(f"`{a}`.`{c}`")

    names = ALIASES[: len(case.windows)]
    equalities = []
    for before, a in itertools.pairwise(names):
        if case.shape == "chain":
            equalities.append(Equality(col(before, "y"), col(a, "x")))
        else:
            equalities.append(Equality(col(before, "x"), col(a, "x")))
            if case.shape == "pair":
                equalities.append(Equality(col(before, "y"), col(a, "y")))
    outputs = tuple(Output(f"{a}_{c}", col(a, c)) for a in names for c in ("id", "x", "y"))
    inputs = tuple(Input(a, a, w) for a, w in zip(names, case.windows, strict=True))
    return Query("q", "", inputs, tuple(equalities), (), outputs)


def rows_of(case: Case) -> dict[str, list[dict]]:
    rng = random.Random(case.seed)
    out = {}
    for a in ALIASES[: len(case.windows)]:
        rows = []
        clock = 0
        for i in range(case.tuples):
            clock = (
                rng.randrange(case.spread)
                if case.disorder == 40
                else clock + rng.randrange(max(2, 2 * case.spread // max(1, case.tuples)))
            )
            ts = None if rng.random() < 0.05 else clock - rng.randrange(case.disorder + 1)
            x = None if rng.random() < 0.05 else (0 if rng.random() < 0.3 else rng.randrange(case.keys))
            y = None if rng.random() < 0.05 else rng.randrange(case.keys)
            rows.append({"ts": ts, "x": value(case.kind, x), "y": value(case.kind, y), "id": i})
        out[a] = rows
    return out


def batches_of(case: Case, rows: dict[str, list[dict]]) -> list[dict[str, list[dict]]]:
    """Each stream's rows in order, the streams at random paces, some batches without any."""
    rng = random.Random(case.seed + 1)
    left = {a: list(r) for a, r in rows.items()}
    out = []
    while any(left.values()):
        batch = {}
        for a, r in left.items():
            n = rng.choice([0, 0, 1, 3, 10, 40])
            batch[a], left[a] = r[:n], r[n:]
        out.append(batch)
    return out


def table(case: Case, rows: list[dict]) -> pa.RecordBatch:
    kind = KINDS[case.kind][0]
    return pa.record_batch(
        [
            pa.array([r["ts"] for r in rows], pa.timestamp("us", "UTC")),
            pa.array([r["x"] for r in rows], kind),
            pa.array([r["y"] for r in rows], kind),
            pa.array([r["id"] for r in rows], pa.int64()),
        ],
        names=["ts", "x", "y", "id"],
    )


def made_of(case: Case, query: Query, plan: Deployment | None = None, shape: Shape | None = None) -> Compiled:
    kind = KINDS[case.kind][0]
    columns = {"ts": pa.timestamp("us", "UTC"), "x": kind, "y": kind, "id": pa.int64()}
    infos = {
        a: StreamInfo(a, columns, "ts", lateness, order=("id",))
        for a, lateness in zip(query.aliases, case.lateness, strict=True)
    }
    kinds = {s.sql: kind for e in query.equalities for s in (e.left, e.right)}
    return compiled(TypedQuery(query, query.equalities, kinds), infos, case.buckets, plan=plan, shape=shape)


def any_tree(case: Case, query: Query) -> Deployment:
    """A plan in which streams and joins meet in any order, some at a time, where something connects them."""
    rng = random.Random(case.seed + 3)
    names = {a: frozenset([n]) for n, a in enumerate(query.aliases)}
    operators: list[Operator] = [Source(a, "n1", stream=a) for a in query.aliases]
    edges = []

    def add(operator: Operator) -> None:
        operators.append(operator)
        edges.extend(Edge(i, operator.id, "n1", "n1", (), 1.0, 1.0) for i in operator.inputs)

    while len(names) > 1:
        some = [rng.choice(sorted(names))]
        while len(some) < 2 or (len(some) < len(names) and rng.random() < 0.4):
            inside = frozenset[int]().union(*(names[n] for n in some))
            near = {i + d for i in inside for d in (-1, 1)}
            reach = [
                n
                for n, theirs in sorted(names.items())
                if n not in some and (case.shape != "chain" or near & theirs)
            ]
            some.append(rng.choice(reach))
        own = JoinTree(tree="", because="a test")
        add(Join(f"join{len(operators)}", "n1", tuple(some), streams=(), on=(), split=(own,)))
        names[operators[-1].id] = frozenset[int]().union(*(names.pop(n) for n in some))
    add(Sink("out", "n1", tuple(names), query="q"))
    return Deployment(tuple(operators), tuple(edges))


def expected_ids(case: Case, query: Query, kept: dict[str, list[dict]]):
    """The rule, one stream after another so that large products need not be walked."""
    combinations: list[tuple[tuple[dict, ...], int, float]] = [((), -(10**18), float("inf"))]
    for n, a in enumerate(query.aliases):
        intervals = reference.alive(reference.Stream(kept[a], case.windows[n], order=("id",)))
        extended = []
        for members, start, end in combinations:
            for i, (lo, hi) in intervals.items():
                row = kept[a][i]
                if max(start, lo) <= min(end, hi) and (not members or matches(case, members[-1], row)):
                    extended.append(((*members, row), max(start, lo), min(end, hi)))
        combinations = extended
    return [tuple(row["id"] for row in members) for members, _, _ in combinations]


def matches(case: Case, before: dict, row: dict) -> bool:
    def equal(x, y) -> bool:
        if isinstance(x, list):  # inside a list NULL is a value like others
            return x == y
        return reference.equal(x, y)

    if case.shape == "chain":
        return equal(before["y"], row["x"])
    return equal(before["x"], row["x"]) and (case.shape == "star" or equal(before["y"], row["y"]))


def bounded(case: Case) -> bool:
    """Whether the results stay few enough to be walked one by one, were all tuples to match."""
    return case.tuples ** len(case.windows) <= 200_000

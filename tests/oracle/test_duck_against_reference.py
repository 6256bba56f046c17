"""DuckDB and the reference give the same results on random streams."""

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.catalog.model import Catalog, Site, Source, Stream
from thalweg.errors import UserError
from thalweg.oracle import duck, reference
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

COLUMNS = {"ts": "timestamp", "n": "int", "k": "double", "j": "int"}
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", tz="UTC")), ("n", pa.int32()), ("k", pa.float64()), ("j", pa.int32())]
)

# Few keys, so that they meet; one of them is much more frequent than the others.
keys = st.sampled_from([1.0, 1.0, 1.0, 2.0, -0.0, 0.0, math.nan, None])
times = st.one_of(st.none(), st.integers(-5, 40), st.sampled_from([0, 10, 10**9]))
windows = st.one_of(
    st.builds(Window, st.just(WindowKind.RANGE), st.sampled_from([0, 1, 7, 10**7])),
    st.builds(
        Window,
        st.just(WindowKind.ROWS),
        st.integers(1, 4),
        st.none(),
        st.sampled_from([(), (), ("k",), ("j",), ("j", "k")]),
    ),
    st.builds(Window, st.just(WindowKind.TUMBLE), st.sampled_from([1, 7, 10**7])),
    st.just(Window(WindowKind.UNBOUNDED)),
)


@st.composite
def cases(draw):
    """Streams, windows, and whether the streams hang together by one attribute or by a chain of two."""
    count = draw(st.integers(2, 5))
    longest = {2: 12, 3: 10, 4: 6, 5: 4}[count]
    row = st.tuples(times, keys, st.integers(0, 2))
    streams = [
        [{"ts": ts, "n": n, "k": k, "j": j} for n, (ts, k, j) in enumerate(rows)]
        for rows in draw(st.lists(st.lists(row, max_size=longest), min_size=count, max_size=count))
    ]
    return (
        streams,
        draw(st.lists(windows, min_size=count, max_size=count)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def equalities(count, chain):
    """(stream, column) pairs: a.k = b.k = c.k, or a.k = b.k, b.j = c.j, c.k = d.k ..."""
    columns = ["kj"[i % 2] if chain else "k" for i in range(count - 1)]
    return [((i, c), (i + 1, c)) for i, c in enumerate(columns)]


def by_duckdb(streams, windows, pairs, filtered):
    names = [f"s{i}" for i in range(len(streams))]
    query = Query(
        "q",
        "",
        tuple(
            Input(n, n, w, (Expr(f"`{n}`.`j` > 0"),) if filtered and n == "s0" else ())
            for n, w in zip(names, windows, strict=True)
        ),
        tuple(Equality(Expr(f"`s{i}`.`{a}`"), Expr(f"`s{j}`.`{b}`")) for (i, a), (j, b) in pairs),
        (Expr("`s0`.`n` <= `s1`.`n` + 2"),),
        (
            *(Output(f"n{i}", Expr(f"`{n}`.`n`")) for i, n in enumerate(names)),
            Output("t", Expr("result_time")),
        ),
    )
    source = Source(format="memory")
    catalog = Catalog(
        path="catalog.yaml",
        sites={"here": Site()},
        streams={
            n: Stream(name=n, site="here", time="ts", order=("n",), columns=COLUMNS, source=source)
            for n in names
        },
    )
    tables = {n: pa.Table.from_pylist(rows, SCHEMA) for n, rows in zip(names, streams, strict=True)}
    with duck.connect() as con:
        duck.load(con, query, catalog, read_static=lambda stream: tables[stream.name])
        columns = ", ".join(f"c{i}" for i in range(len(names)))
        rows = con.execute(
            f"SELECT {columns}, epoch_us(c{len(names)}) FROM ({duck.expected_sql(query, catalog)})"
        ).fetchall()
    return Counter((row[:-1], row[-1]) for row in rows)


def by_reference(streams, windows, pairs, filtered):
    def condition(rows):
        return (
            all(reference.equal(rows[i][a], rows[j][b]) for (i, a), (j, b) in pairs)
            and rows[0]["n"] <= rows[1]["n"] + 2
            and (not filtered or rows[0]["j"] > 0)
        )

    inputs = [reference.Stream(s, w, order=("n",)) for s, w in zip(streams, windows, strict=True)]
    return Counter((r.members, r.time) for r in reference.join(inputs, condition=condition))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_duckdb_gives_what_the_rule_says(case):
    streams, windows, chain, filtered = case
    pairs = equalities(len(streams), chain)
    assert by_duckdb(streams, windows, pairs, filtered) == by_reference(streams, windows, pairs, filtered)


def rows_of(times):
    return [{"ts": ts, "n": n, "k": 1.0, "j": 1} for n, ts in enumerate(times)]


def test_a_hot_key_meets_only_within_its_window():
    streams = [rows_of(range(0, 400, 2)), rows_of(range(0, 400, 3))]
    windows = [Window(WindowKind.RANGE, 5), Window(WindowKind.ROWS, 2)]
    pairs = equalities(2, chain=False)
    found = by_duckdb(streams, windows, pairs, filtered=False)
    assert found == by_reference(streams, windows, pairs, filtered=False)
    assert found


def test_tuples_that_rows_can_not_order_are_named():
    twice = [{"ts": 1_000_000, "n": 7, "k": 1.0, "j": 1}] * 2
    rows, forever = Window(WindowKind.ROWS, 1), Window(WindowKind.UNBOUNDED)
    with pytest.raises(UserError, match=r"'s0'.*1970-01-01T00:00:01.*n = 7"):
        by_duckdb([twice, twice], [rows, forever], equalities(2, chain=False), filtered=False)
    with pytest.raises(reference.DuplicateOrderError):
        by_reference([twice, twice], [rows, forever], equalities(2, chain=False), filtered=False)
    pairs = equalities(2, chain=False)
    assert sum(by_duckdb([twice, twice], [forever, forever], pairs, filtered=False).values()) == 4


def test_a_time_so_late_that_adding_the_window_would_overflow():
    far = [{"ts": 2**62, "n": 0, "k": 1.0, "j": 1}]
    windows = [Window(WindowKind.RANGE, 2**63), Window(WindowKind.RANGE, 2**62)]
    pairs = equalities(2, chain=False)
    assert by_duckdb([far, far], windows, pairs, filtered=False) == Counter({((0, 0), 2**62): 1})


def test_reference_examples_by_hand():
    closed = Window(WindowKind.RANGE, 10)
    a, b = rows_of([0, 11]), rows_of([10])
    assert [
        r.members for r in reference.join([reference.Stream(a, closed), reference.Stream(b, closed)])
    ] == [
        (0, 0),
        (1, 0),
    ]
    one_row = Window(WindowKind.ROWS, 1)
    # The first row of `a` dies when the second comes; at that very moment it is dead already.
    assert [
        r.members
        for r in reference.join(
            [reference.Stream(rows_of([0, 10]), one_row, order=("n",)), reference.Stream(b, closed)]
        )
    ] == [(1, 0)]


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=5), max_size=5), st.integers(0, 30)
)
def test_late_is_judged_by_earlier_batches_only(batches, lateness):
    rows = [[{"ts": ts, "batch": n} for ts in batch] for n, batch in enumerate(batches)]
    kept, late = reference.late_split(rows, lateness)
    assert len(kept) + len(late) == sum(map(len, batches))
    assert all(row["ts"] is not None for row in kept)
    for row in kept + late:
        earlier = [ts for batch in batches[: row["batch"]] for ts in batch if ts is not None]
        if row["ts"] is not None:
            assert (row in late) == any(row["ts"] < ts - lateness for ts in earlier)

"""`thalweg.join` and `thalweg.sql` on streaming and static DataFrames, compared with the rule."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import thalweg
from tests.conftest import environment

from .feed import SECOND, Feed, check_sql, drained, expected, multiset, reports, rows, written


def check_join(spark, tmp_path, feeds, sql, live=True, **arguments):
    """The join of feeds, live and static, is what DuckDB says of the query; returns its results."""
    folder = written(feeds, tmp_path)
    static = thalweg.join({n: f.static(spark, folder / n) for n, f in feeds.items()}, **arguments)
    whole = multiset(static.toArrow())
    assert whole == expected(sql, feeds, whole=True)
    if live:
        joined = thalweg.join({n: f.live(spark, folder / n) for n, f in feeds.items()}, **arguments)
        assert joined.columns == static.columns
        found, _ = drained(joined, tmp_path / "checkpoint")
        assert found == expected(sql, feeds)
    return whole


DAY = datetime.date(2024, 2, 29)
NAN = float("nan")
KEYS = {
    "int and long": (("int", "bigint"), [1, 2, -3, None, 2**31 - 1]),
    "byte and short": (("tinyint", "smallint"), [1, 2, -3, None, 127]),
    "string": (("string", "string"), ["", "a", "ä" * 40, None, "a "]),
    "decimal": (("decimal(5,2)", "decimal(10,4)"), [Decimal("1.50"), Decimal("-2"), None, Decimal("0.01")]),
    "wide decimal": (
        ("decimal(30,2)", "decimal(38,10)"),
        [Decimal(10**20), Decimal("-0.5"), None, Decimal(1)],
    ),
    "widest decimal": (
        ("decimal(38,0)", "decimal(38,2)"),
        [Decimal("9" * 36), Decimal(-(10**35)), None, Decimal(1)],
    ),
    "decimal and int": (("decimal(12,3)", "int"), [Decimal(1), Decimal(2), None, Decimal(-7)]),
    "int and double": (("double", "int"), [1.0, 2.5, None, -7.0, NAN, 3.0]),
    "timestamp": (("timestamp", "timestamp"), [0, 1, -5 * SECOND, None, 253402300799999999]),
    "date": (("date", "date"), [DAY, datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "boolean": (("boolean", "boolean"), [True, False, None]),
    "double": (("double", "double"), [0.0, -0.0, NAN, 1.5, None, float("inf")]),
    "float and double": (("float", "double"), [0.0, -0.0, NAN, 1.5, None, 0.25]),
    "binary": (("binary", "binary"), [b"", b"\x00", b"\x00\xff", None, b"abc"]),
}


def keyed(kind, values, name, seconds):
    """Every value at every one of these moments, in a batch for each moment."""
    return Feed(
        {"ts": "timestamp", "k": kind, "id": "string"},
        [[{"ts": s * SECOND, "k": v, "id": f"{name}{s}.{n}"} for n, v in enumerate(values)] for s in seconds],
    )


QUICK = ("int and long", "string", "wide decimal", "int and double", "timestamp", "double")


@pytest.mark.parametrize("name", [k if k in QUICK else pytest.param(k, marks=pytest.mark.long) for k in KEYS])
def test_keys(spark, tmp_path, name):
    (one, other), values = KEYS[name]
    others = [int(v) if other == "int" and v is not None and v == v else v for v in values]
    others = [None if v != v and other == "int" else v for v in others]
    feeds = {"a": keyed(one, values, "a", (0, 6)), "b": keyed(other, others, "b", (3, 11))}
    query = (
        "SELECT a.ts AS at, a.k AS ak, a.id AS ai, b.ts AS bt, b.k AS bk, b.id AS bi, result_time "
        "FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
    )
    found = check_join(spark, tmp_path, feeds, query, on="k", within="5 seconds", time="ts")
    assert found


def test_a_key_of_two_columns_under_other_names_with_dicts_for_everything(spark, tmp_path):
    feeds = {
        "a": Feed(
            {"ts": "timestamp", "x": "int", "y": "string"},
            [
                rows("ts x y", (0, 1, "p"), (1, 1, "q"), (2, None, "p")),
                rows("ts x y", (9, 1, "p"), (3, 2, "p")),
            ],
            lateness=7 * SECOND,
        ),
        "b": Feed(
            {"when": "timestamp", "n": "bigint", "s": "string"},
            [
                [{"when": 2 * SECOND, "n": 1, "s": "p"}, {"when": 4 * SECOND, "n": 1, "s": None}],
                [{"when": 12 * SECOND, "n": 1, "s": "p"}, {"when": SECOND, "n": 1, "s": "p"}],
                [{"when": 11 * SECOND, "n": 1, "s": "p"}],
            ],
            time="when",
            lateness=0,
        ),
    }
    query = (
        "SELECT *, result_time FROM a [RANGE 3 SECONDS], b [RANGE 8 SECONDS] WHERE a.x = b.n AND a.y = b.s"
    )
    assert check_join(
        spark,
        tmp_path,
        feeds,
        query,
        on={"a": ["x", "y"], "b": ["n", "s"]},
        within={"a": "3 seconds", "b": "8 seconds"},
        time={"a": "ts", "b": "when"},
        lateness={"a": "7 seconds", "b": "0 seconds"},
    )


def test_keys_that_are_arrays_and_structs(spark, tmp_path):
    """NULL inside a nested key is a value like others; a NULL key equals nothing."""
    keys = [{"f": [1, None], "g": NAN}, {"f": [1, None], "g": -0.0}, {"f": None, "g": 0.0}, None]
    columns = {"ts": "timestamp", "k": "struct<f: array<int>, g: double>", "id": "int"}
    feeds = {
        name: Feed(columns, [[{"ts": SECOND * n, "k": k, "id": n} for n, k in enumerate(keys)]])
        for name in "ab"
    }
    folder = written(feeds, tmp_path)
    arguments = {"on": "k", "within": "1 minute", "time": "ts"}
    live = thalweg.join({n: f.live(spark, folder / n) for n, f in feeds.items()}, **arguments)
    static = thalweg.join({n: f.static(spark, folder / n) for n, f in feeds.items()}, **arguments)
    ids = Counter((row.a_id, row.b_id) for row in static.collect())
    assert ids == Counter([(0, 0), (1, 1), (2, 2)])
    found, _ = drained(live, tmp_path / "checkpoint")
    assert found == multiset(static.toArrow())


def test_nested_columns_pass_unchanged(spark, tmp_path):
    kinds = {
        "tags": "array<struct<n: int, s: string>>",
        "more": "map<string, array<double>>",
        "deep": "struct<a: struct<b: date>, c: binary>",
        "gap": "interval day to second",
        "ntz": "timestamp_ntz",
        "yes": "boolean",
    }
    value = {
        "tags": [{"n": 1, "s": "x"}, None, {"n": None, "s": ""}],
        "more": [("k", [1.5, NAN, None]), ("l", None)],
        "deep": {"a": {"b": DAY}, "c": b"\x00\x01"},
        "gap": datetime.timedelta(days=1, microseconds=5),
        "ntz": datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
        "yes": False,
    }
    nothing = dict.fromkeys(kinds)
    empty = {**nothing, "tags": [], "more": [], "deep": {"a": None, "c": None}}
    feeds = {
        name: Feed(
            {"ts": "timestamp", "k": "int", **kinds},
            [[{"ts": 0, "k": 1, **value}, {"ts": 1, "k": 1, **nothing}], [{"ts": 2, "k": 1, **empty}]],
        )
        for name in "ab"
    }
    folder = written(feeds, tmp_path)
    arguments = {"on": "k", "within": "1 minute", "time": "ts"}
    live = thalweg.join({n: f.live(spark, folder / n) for n, f in feeds.items()}, **arguments)
    static = thalweg.join({n: f.static(spark, folder / n) for n, f in feeds.items()}, **arguments)
    found, _ = drained(live, tmp_path / "checkpoint")
    once = {n: multiset(f.table(f.rows)) for n, f in feeds.items()}
    pairs = Counter((*a, *b, max(a[0], b[0])) for a in once["a"].elements() for b in once["b"].elements())
    assert multiset(static.toArrow()) == pairs
    assert found == pairs


def test_late_tuples_are_kept_with_all_columns_and_counted(spark, tmp_path):
    columns = {"ts": "timestamp", "k": "string", "id": "int", "more": "array<int>"}
    names = "ts k id more"
    feeds = {
        "a": Feed(
            columns,
            [
                rows(names, (100, "x", 1, [1]), (50, "y", 2, None), (None, "x", 3, [3])),
                rows(
                    names,
                    (94, "x", 4, [4, 4]),
                    (95, "x", 5, [5]),
                    (94.999999, None, 6, []),
                    (120, "y", 7, None),
                ),
                rows(names, (60, "z", 8, [8]), (115, "x", 9, [9])),
            ],
            lateness=5 * SECOND,
        ),
        "b": Feed(columns, [rows(names, (98, "x", 1, [])), rows(names, (116, "x", 2, []))]),
    }
    folder = written(feeds, tmp_path)
    joined = thalweg.join(
        {n: f.live(spark, folder / n) for n, f in feeds.items()},
        on="k",
        within="10 seconds",
        time="ts",
        lateness={"a": "5 seconds", "b": "10 seconds"},
        late=tmp_path / "late",
    )
    query = "SELECT *, result_time FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
    found, stream = drained(joined, tmp_path / "checkpoint")
    # DuckDB says what must come out; of a nested column it gets only what can be compared.
    assert found == expected(query, feeds)
    files = list((tmp_path / "late" / "a").glob("*.parquet"))
    kept = sum((multiset(pq.ParquetFile(f).read()) for f in files), Counter())
    _, late = feeds["a"].split()
    assert sorted(row["id"] for row in late) == [3, 4, 6, 8]
    assert kept == multiset(feeds["a"].table(late))
    assert not (tmp_path / "late" / "b").exists()
    said = reports(stream)
    assert sum(r.get("late", {}).get("a", 0) for r in said) == 4
    assert sum(r.get("late", {}).get("b", 0) for r in said) == 0
    assert sum(r.get("read", {}).get("a", 0) for r in said) == 9
    assert max(r.get("newest", {}).get("a", 0) for r in said) == 120 * SECOND
    told = {
        "read",
        "late",
        "reasons",
        "newest",
        "state_rows",
        "state_bytes",
        "work",
        "moments",
        "probed",
        "updated",
    }
    assert all(r.keys() <= told for r in said)
    assert sum(r.get("reasons", {}).get("a", {}).get("late", 0) for r in said) == 3


def test_late_tuples_are_counted_where_they_are_not_kept(spark, tmp_path):
    batches = [rows("ts k", (100, 1)), rows("ts k", (10, 1), (20, None), (None, 1)), rows("ts k", (100, 1))]
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, batches) for n in "ab"}
    folder = written(feeds, tmp_path)
    joined = thalweg.join(
        {n: f.live(spark, folder / n) for n, f in feeds.items()}, on="k", within="1 s", time="ts"
    )
    found, stream = drained(joined, tmp_path / "checkpoint")
    assert sum(found.values()) == 4
    late = Counter()
    for r in reports(stream):
        late.update(r.get("late", {}))
    assert late == {"a": 3, "b": 3}


def test_a_time_without_a_zone(spark, tmp_path):
    feeds = {
        "a": Feed({"ts": "timestamp_ntz", "k": "int"}, [rows("ts k", (1, 1), (3, 1)), rows("ts k", (5, 1))]),
        "b": Feed({"ts": "timestamp_ntz", "k": "int"}, [rows("ts k", (2, 1)), rows("ts k", (9, 1))]),
    }
    query = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
    assert sum(check_sql(spark, tmp_path, feeds, query).values()) == 2


ODD = {
    "ts": "timestamp",
    "a b": "int",
    "c.d": "string",
    "e`f": "int",
    "UPPER": "int",
    "_g": "int",
    "größe": "int",
}


def test_columns_with_odd_names(spark, tmp_path):
    def row(s, k):
        return {
            "ts": s * SECOND,
            "a b": k,
            "c.d": str(k),
            "e`f": k + 1,
            "UPPER": k + 2,
            "_g": k + 3,
            "größe": s,
        }

    feeds = {
        "a": Feed(ODD, [[row(0, 1), row(1, 2)], [row(5, 1)]], lateness=0),
        "b": Feed(ODD, [[row(2, 1), row(3, 2)], [row(1, 1)]], lateness=0),
    }
    folder = written(feeds, tmp_path)
    for key in ("a b", "c.d", "e`f", "upper", "_g"):
        live = thalweg.join(
            {n: f.live(spark, folder / n) for n, f in feeds.items()},
            on=["a b", key] if key == "c.d" else key,
            within="10 seconds",
            time="ts",
            lateness="0 seconds",
            late=tmp_path / key / "late",
        )
        assert live.columns == [*(f"{x}_{c}" for x in "ab" for c in ODD), "result_time"]
        if key in ("e`f", "c.d"):
            found, _ = drained(live, tmp_path / key / "checkpoint")
            assert Counter((r[0].second, r[7].second) for r in found.elements()) == Counter(
                [(0, 2), (5, 2), (1, 3)]
            )
            (file,) = (tmp_path / key / "late" / "b").glob("*.parquet")
            assert multiset(pq.ParquetFile(file).read()) == multiset(feeds["b"].table([row(1, 1)]))
    query = (
        "SELECT a.`a b`, a.`c.d` AS `x.y`, b.`e``f` AS `z``z`, b.UPPER + b._g AS `_sum`, `größe` AS g "
        "FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.`e``f` = b.`e``f` AND a.`_g` = b.`_g`"
    )
    query = query.replace("`größe` AS", "a.`größe` AS")
    frames = {n: f.static(spark, folder / n) for n, f in feeds.items()}
    found = thalweg.sql(spark, query, frames, time="ts")
    assert found.columns == ["a b", "x.y", "z`z", "_sum", "g"]
    assert multiset(found.toArrow()) == expected(query, feeds, whole=True)


def test_empty_streams(spark, tmp_path):
    columns = {"ts": "timestamp", "k": "int"}
    feeds = {
        "a": Feed(columns, [rows("ts k", (1, 1))]),
        "b": Feed(columns, [[]]),
        "c": Feed(columns, [[], []]),
    }
    query = "SELECT *, result_time FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] "
    query += "WHERE a.k = b.k AND b.k = c.k"
    assert not check_join(spark, tmp_path, feeds, query, on="k", within="1 hour", time="ts")


def test_six_streams_with_a_window_of_zero(spark, tmp_path):
    columns = {"ts": "timestamp", "k": "int", "id": "int"}
    feeds = {
        n: Feed(
            columns, [rows("ts k id", (1, 1, 0), (1, 1, 1), (2, 1, 2)), rows("ts k id", (2, 1, 3), (3, 2, 4))]
        )
        for n in "abcdef"
    }
    equal = " AND ".join(f"a.k = {n}.k" for n in "bcdef")
    query = (
        f"SELECT *, result_time FROM {', '.join(f'{n} [RANGE 0 SECONDS]' for n in 'abcdef')} WHERE {equal}"
    )
    found = check_join(spark, tmp_path, feeds, query, on="k", within="0 seconds", time="ts")
    assert sum(found.values()) == 2**6 + 2**6 + 1


def test_the_users_session_may_keep_state_in_memory(spark, tmp_path):
    """The default provider can't hold the join's state; it is changed for the user."""
    key = "spark.sql.streaming.stateStore.providerClass"
    other = spark.newSession()
    other.conf.set(key, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    other.conf.set("spark.sql.shuffle.partitions", "3")
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    feeds = {
        n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1)), rows("ts k", (2, 1))]) for n in "ab"
    }
    query = "SELECT *, result_time FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
    found = check_join(other, tmp_path, feeds, query, on="k", within="5 seconds", time="ts")
    assert sum(found.values()) == 4
    unfit = spark.newSession()
    unfit.conf.set(key, "org.example.Provider")
    with pytest.raises(thalweg.UserError, match=r"org\.example\.Provider"):
        thalweg.join(
            {n: f.live(unfit, tmp_path / n) for n, f in feeds.items()}, on="k", within="5 seconds", time="ts"
        )


@pytest.mark.long
def test_two_queries_over_one_join_do_not_disturb_each_other(spark, tmp_path):
    batches = [rows("ts k", *((10 * n + i, i % 3) for i in range(9))) for n in range(4)]
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, batches) for n in "ab"}
    folder = written(feeds, tmp_path)
    query = "SELECT *, result_time FROM a [RANGE 15 SECONDS], b [RANGE 15 SECONDS] WHERE a.k = b.k"
    joined = thalweg.join(
        {n: f.live(spark, folder / n) for n, f in feeds.items()}, on="k", within="15 seconds", time="ts"
    )
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda n: drained(joined, tmp_path / f"checkpoint{n}")[0], range(2)))
    assert found == [expected(query, feeds)] * 2


def test_a_join_of_a_join_and_a_union_of_two(spark, tmp_path):
    """Spark refuses two metrics of one name in a query."""
    batches = [rows("ts k", *((10 * n + i, i % 3) for i in range(9))) for n in range(3)]
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, batches) for n in "abc"}
    folder = written(feeds, tmp_path)

    def joins(frames):
        near = {"within": "15 seconds", "lateness": "100 seconds"}
        first = thalweg.join({n: frames[n] for n in "ab"}, on="k", time="ts", **near)
        again = thalweg.join({n: frames[n] for n in "bc"}, on="k", time="ts", **near)
        keys, times = {"ab": "a_k", "c": "k"}, {"ab": "result_time", "c": "ts"}
        second = thalweg.join({"ab": first, "c": frames["c"]}, on=keys, time=times, **near)
        both = first.select("a_k", "result_time").union(again.select("c_k", "result_time"))
        return second, frames["c"].select("k", "ts").union(both)

    static = joins({n: f.static(spark, folder / n) for n, f in feeds.items()})
    live = joins({n: f.live(spark, folder / n) for n, f in feeds.items()})
    for n, (whole, streaming) in enumerate(zip(static, live, strict=True)):
        found, _ = drained(streaming, tmp_path / f"checkpoint{n}")
        assert found == multiset(whole.toArrow())
        assert found


def test_another_number_of_partitions_is_refused(spark, tmp_path):
    """Keys would be in other buckets, where their windows are not."""

    def joined(partitions):
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        return thalweg.join(
            {n: f.live(session, tmp_path / n) for n, f in feeds.items()},
            on="k",
            within="5 seconds",
            time="ts",
        )

    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1), (2, 2))]) for n in "ab"}
    written(feeds, tmp_path)
    drained(joined(3), tmp_path / "checkpoint")
    for feed in feeds.values():
        feed.batches = [*feed.batches, rows("ts k", (3, 1), (3, 2))]
    written(feeds, tmp_path)
    with pytest.raises(StreamingQueryException, match="was begun with 3 shuffle partitions, not with 2"):
        drained(joined(2), tmp_path / "checkpoint")


class TestWrongInput:
    @pytest.fixture
    def frames(self, spark, tmp_path):
        columns = {"ts": "timestamp", "k": "int", "s": "string", "m": "map<string, int>", "d": "date"}
        columns["nested"] = "array<struct<m: map<int, int>>>"
        columns["v"] = "variant"
        schema = Feed(columns, []).schema
        return {
            "static": spark.createDataFrame([], schema),
            "live": spark.readStream.schema(schema).parquet(str(tmp_path)),
        }

    CASES = (
        ({"on": "nope"}, r"'a' has no column 'nope'.*ts, k"),
        ({"time": "nope"}, "'a' has no column 'nope'"),
        ({"time": "d"}, "is a date.*timestamp"),
        ({"on": {"a": "k"}}, "`on` has nothing for 'b'"),
        ({"time": {"b": "ts"}}, "`time` has nothing for 'a'"),
        ({"on": {"a": ["k", "s"], "b": "k"}}, "different numbers of columns"),
        ({"on": []}, "names no column"),
        ({"within": "5"}, "unit"),
        ({"within": 5}, "duration|unit"),
        ({"within": "-5 seconds"}, "negative"),
        ({"lateness": "soon"}, "not a duration"),
        ({"on": "m"}, "map.*can't be a key"),
        ({"on": "nested"}, "can't be a key"),
        ({"on": "v"}, "variant.*can't be a key"),
        ({"on": {"a": "d", "b": "k"}}, "cast"),
        ({"on": None}, "`on` is 'None' for 'a'.*a column's name"),
        ({"on": [1]}, "`on`.*a list of names"),
        ({"time": 3}, "`time` is '3' for 'a'"),
        ({"time": ["ts", "d"]}, "names 2 columns"),
        ({"within": None}, "`within`.*not a duration"),
        ({"within": {"a": "1 second"}}, "`within` has nothing for 'b'"),
        ({"lateness": 3}, "`lateness`.*no unit"),
        ({"late": 3}, "`late` has the type int"),
    )

    @pytest.mark.parametrize(("change", "message"), CASES, ids=lambda value: str(value)[:40])
    def test_of_join(self, frames, change, message):
        arguments = {"on": "k", "within": "5 seconds", "time": "ts", **change}
        with pytest.raises(thalweg.UserError, match=message):
            thalweg.join({"a": frames["static"], "b": frames["static"]}, **arguments)

    def test_of_streams(self, frames):
        arguments = {"on": "k", "within": "5 seconds", "time": "ts"}
        with pytest.raises(thalweg.UserError, match=r"live \(b\).*static"):
            thalweg.join({"a": frames["static"], "b": frames["live"]}, **arguments)
        with pytest.raises(thalweg.UserError, match="two streams"):
            thalweg.join({"a": frames["static"]}, **arguments)
        twice = frames["static"].selectExpr("ts", "k", "k AS b_k")
        with pytest.raises(thalweg.UserError, match="'a_b_k'"):
            thalweg.join({"a": twice, "a_b": frames["static"].select("ts", "k")}, **arguments)

    def test_of_python_types(self, spark, frames):
        one, arguments = frames["static"], {"on": "k", "within": "5 seconds", "time": "ts"}
        for streams, message in (
            ([one, one], "have the type list.*a dict of DataFrames"),
            (one, "have the type DataFrame"),
            ({"a": one, 2: one}, "2 is not a string"),
            ({"a": one, "b": "b.parquet"}, "'b' has the type str"),
        ):
            with pytest.raises(thalweg.UserError, match=rf"^thalweg\.join: .*{message}"):
                thalweg.join(streams, **arguments)
            with pytest.raises(thalweg.UserError, match=rf"^thalweg\.sql: .*{message}"):
                thalweg.sql(spark, "SELECT 1", streams, time="ts")
        for name in ("on", "time"):
            with pytest.raises(thalweg.UserError, match=f"`{name}` is .*Column"):
                thalweg.join({"a": one, "b": one}, **{**arguments, name: one.k})
        both = {"a": one, "b": one}
        with pytest.raises(thalweg.UserError, match="the query has the type int"):
            thalweg.sql(spark, 3, both, time="ts")
        query = "SELECT a.k FROM a [ROWS 1], b [ROWS 1] WHERE a.k = b.k"
        with pytest.raises(thalweg.UserError, match=r"`order` is .*Column"):
            thalweg.sql(spark, query, both, time="ts", order=one.k)
        with pytest.raises(thalweg.UserError, match=r"^thalweg\.sql, line 1, column 1: the query is empty"):
            thalweg.sql(spark, "", both, time="ts")

    def test_of_clocks(self, spark, frames):
        """Times with and without a zone are only compared where the session's zone is UTC."""
        bare = frames["static"].selectExpr("CAST(ts AS TIMESTAMP_NTZ) AS ts", "k")
        streams = {"a": frames["static"].select("ts", "k"), "b": bare}
        arguments = {"on": "k", "within": "5 seconds", "time": "ts"}
        assert thalweg.join(streams, **arguments).columns[-1] == "result_time"
        zone = "spark.sql.session.timeZone"
        try:
            spark.conf.set(zone, "Europe/Berlin")
            with pytest.raises(thalweg.UserError, match="the times of b have no time zone"):
                thalweg.join(streams, **arguments)
        finally:
            spark.conf.set(zone, "UTC")

    SQL = (
        ("SELECT a.k FROM a [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE a.k = c.k", "'c'"),
        ("SELECT a.x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k", "'x'"),
        ("SELECT a.k FROM a, b [RANGE 1 SECOND] WHERE a.k = b.k", "window"),
        ("SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k < 3", "no equality connects"),
        ("SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.m = b.m", "map"),
        (
            "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.k + 1",
            "not a condition",
        ),
        (
            "SELECT no_such(a.k) AS x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
            r"^thalweg\.sql: no_such",
        ),
        (
            "SELECT make_ym_interval(a.k) AS x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] "
            "WHERE make_ym_interval(a.k) = make_ym_interval(b.k)",
            "interval year to month are not supported",
        ),
        (
            "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.k + b.k",
            "a condition|bool",
        ),
        ("SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = no_such(b.k)", "no_such"),
    )

    @pytest.mark.parametrize(("query", "message"), SQL, ids=[message for _, message in SQL])
    def test_of_sql(self, spark, frames, query, message):
        with pytest.raises(thalweg.UserError, match=message):
            thalweg.sql(spark, query, {"a": frames["static"], "b": frames["static"]}, time="ts")


OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
import thalweg

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
context = spark.sparkContext
before = context.pythonExec, dict(context.environment)
frames = {
    name: spark.readStream.schema("ts timestamp, k int").parquet(f"{sys.argv[1]}/{name}") for name in "ab"
}
joined = thalweg.join(frames, on="k", within="5 seconds", time="ts")
assert (context.pythonExec, context.environment) == before
assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
writer = joined.writeStream.format("memory").queryName("found").trigger(availableNow=True)
writer.option("checkpointLocation", sys.argv[1] + "/checkpoint").start().awaitTermination()
print(spark.table("found").count())
"""


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.long)])
def test_spark_tells_of_its_workers_only_if_asked(tmp_path, asked):
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1), (2, 2))]) for n in "ab"}
    written(feeds, tmp_path)
    own = {"PYSPARK_PYTHON": sys.executable, **({"THALWEG_SPARK_LOG": "WARN"} if asked else {})}
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION, str(tmp_path)],
        env={**environment(), **own},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == "2", done.stderr
    assert ("Python worker" in done.stderr) == asked
    assert ("Map state thalweg doesn't contain key" in done.stderr) == asked

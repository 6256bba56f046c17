"""Verification of a run's folder against its sources."""

import datetime
import decimal
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.catalog.model import Catalog, Site, Source, Stream
from thalweg.catalog.versions import Kept, Version, digest_of
from thalweg.errors import UserError
from thalweg.oracle import duck
from thalweg.query import parse

UTC = datetime.UTC
COLUMNS = {"ts": "timestamp", "k": "int", "v": "string"}
SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int32()), ("v", pa.string())])


def at(second):
    return datetime.datetime(2024, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=second)


def table(*rows):
    return pa.table(
        [
            [None if ts is None else at(ts) for ts, _, _ in rows],
            [k for _, k, _ in rows],
            [v for _, _, v in rows],
        ],
        schema=SCHEMA,
    )


A = table((0, 1, "a0"), (5, 1, "a1"), (5, None, "a2"), (None, 1, "a3"), (100, 2, "a4"))
B = table((10, 1, "b0"), (16, 1, "b1"), (100, 2, "b2"))
JOINED = [("a0", "b0", at(10)), ("a1", "b0", at(10)), ("a4", "b2", at(100))]


class Place:
    """A catalog of the streams a and b, and the folder of a run."""

    def __init__(self, root):
        self.root = root
        self.formats = {}
        self.columns = {"a": COLUMNS, "b": COLUMNS}
        self.paths = {"a": root / "a", "b": root / "b"}
        self.options = {}
        self.write(A, "a/0.parquet")
        self.write(B, "b/0.parquet")

    def write(self, data, name):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, path)

    def results(self, rows, name="out/results/q/0.parquet", names=("va", "vb", "result_time"), schema=None):
        columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in names]
        types = schema or [pa.string(), pa.string(), pa.timestamp("us", tz="UTC")]
        self.write(pa.table(dict(zip(names, map(pa.array, columns, types), strict=True))), name)

    @property
    def catalog(self):
        return Catalog(
            path="c.yaml",
            sites={"here": Site()},
            streams={
                n: Stream(
                    name=n,
                    site="here",
                    time="ts",
                    columns=self.columns[n],
                    source=Source(
                        format=self.formats.get(n, "parquet"),
                        options={"path": str(self.paths[n]), **self.options},
                    ),
                )
                for n in "ab"
            },
        )

    def verify(
        self, select="a.v AS va, b.v AS vb, result_time", where="a.k = b.k", window="RANGE 10 SECONDS", **more
    ):
        text = f"SELECT {select} FROM a [{window}], b [{window}] WHERE {where}"
        catalog = self.catalog
        return duck.verify(parse(text, name="q", schemas=catalog.schemas), catalog, self.root / "out", **more)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_the_same(place):
    place.results(JOINED[:1])
    place.results(JOINED[1:], "out/results/q/1.parquet")
    assert place.verify() == duck.Verdict(True, 3, 3, 0, 0, [])


def test_missing_extra_and_doubled_rows_are_counted_and_shown(place):
    place.results([JOINED[0], JOINED[0], JOINED[2], ("a9", "b0", at(10))])
    verdict = place.verify()
    assert (verdict.same, verdict.expected, verdict.found, verdict.missing, verdict.extra) == (
        False,
        3,
        4,
        1,
        2,
    )
    assert [e["kind"] for e in verdict.examples] == ["missing", "extra", "extra"]
    assert verdict.examples[0]["row"]["va"] == "a1"
    json.dumps(verdict.to_json(), allow_nan=False)


def test_no_more_than_five_examples_of_each_kind(place):
    place.results([(f"x{n}", "b", at(0)) for n in range(20)])
    verdict = place.verify()
    assert verdict.extra == 20
    assert len([e for e in verdict.examples if e["kind"] == "extra"]) == 5


def test_no_results_but_a_file(place):
    place.results([])
    assert place.verify(where="a.k = b.k AND a.v = 'none'").same
    assert place.verify().missing == 3


def test_what_was_kept_aside_is_left_out_once_for_each_time(place):
    place.write(pa.concat_tables([A, A.slice(0, 1)]), "a/0.parquet")
    place.write(pa.concat_tables([A.slice(0, 1), A.slice(3, 1)]), "out/late/a/0.parquet")
    place.results(JOINED)  # one of the two a0 took part
    assert place.verify().same


def test_a_stream_under_two_aliases(place):
    place.results([("a0", "a1", at(5))])
    catalog = place.catalog
    text = "SELECT x.v AS va, y.v AS vb, result_time FROM a [RANGE 9 SECONDS] x, a [RANGE 9 SECONDS] y "
    text += "WHERE x.k = y.k AND x.v < y.v"
    assert duck.verify(parse(text, name="q", schemas=catalog.schemas), catalog, place.root / "out").same


def test_conditions_with_or_stay_together(place):
    place.results(JOINED)
    assert place.verify(where="a.k = b.k AND (a.v < b.v OR a.k > b.k)").same


def test_only_files_that_spark_reads(place):
    place.write(table((0, 1, "hidden")), "a/_temporary.parquet")
    place.write(table((0, 1, "hidden")), "a/.tmp.parquet")
    place.write(table((0, 1, "nested")), "a/folder/0.parquet")
    (place.root / "a" / "_SUCCESS").write_text("")
    (place.root / "a" / "empty.parquet").write_text("")
    place.results(JOINED)
    assert place.verify().same
    place.options = {"recursiveFileLookup": "true"}
    assert place.verify().missing == 1
    place.options = {"pathGlobFilter": "0*"}
    assert place.verify().same


def test_globs_and_single_files(place):
    place.write(A, "day1/x.parquet")
    place.write(table((0, 1, "other")), "day2/x.parquet")
    place.write(table((0, 1, "other")), "day3/x.parquet")
    place.results(JOINED)
    place.paths["a"] = place.root / "day1" / "x.parquet"
    assert place.verify().same
    place.paths["a"] = place.root / "day[1-2]"
    assert place.verify().missing == 1
    place.paths["a"] = place.root / "day{1,2,3}" / "*.parquet"
    assert place.verify().missing == 2


def test_folders_may_hold_column_values(place):
    (place.root / "a" / "0.parquet").unlink()
    without = A.drop_columns(["k"])
    place.write(without.slice(0, 2), "a/k=1/0.parquet")
    place.write(without.slice(2, 2), "a/k=__HIVE_DEFAULT_PARTITION__/0.parquet")
    place.write(without.slice(4, 1), "a/k=2/0.parquet")
    place.results(JOINED)
    assert place.verify().same


def test_missing_columns_are_null_and_missing_folders_empty(place):
    place.columns["a"] = {**COLUMNS, "later": "struct<x: int, y: array<string>>"}
    place.results([(*row, None) for row in JOINED], names=("va", "vb", "result_time", "later"),
                  schema=[pa.string(), pa.string(), pa.timestamp("us", tz="UTC"),
                          pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])])  # fmt: skip
    assert place.verify("a.v AS va, b.v AS vb, result_time, a.later AS later").same
    place.paths["b"] = place.root / "nowhere"
    assert place.verify("a.v AS va, b.v AS vb, result_time, a.later AS later").extra == 3


def test_files_of_other_widths_and_order_are_read_as_declared(place):
    schema = pa.schema([("v", pa.string()), ("k", pa.int64()), ("ts", pa.timestamp("ms"))])
    rows = [{**row, "ts": row["ts"] and row["ts"].replace(tzinfo=None)} for row in A.to_pylist()]
    place.write(pa.Table.from_pylist(rows, schema), "a/0.parquet")
    place.results(JOINED)
    assert place.verify().same


def test_other_formats_are_read_by_whom_the_caller_says(place):
    place.formats["a"] = "csv"
    place.results(JOINED)
    assert place.verify(read_static=lambda stream: {"a": A}[stream.name]).same
    with pytest.raises(UserError, match="csv"):
        place.verify()


def test_values_are_compared_not_their_types(place):
    place.results(
        [(1, decimal.Decimal("0.333333"), at(10).replace(tzinfo=None), -0.0)] * 2
        + [(2, decimal.Decimal("0.666667"), at(100).replace(tzinfo=None), 0.0)],
        names=("k", "third", "t", "zero"),
        schema=[pa.int64(), pa.decimal128(12, 6), pa.timestamp("us"), pa.float32()],
    )
    assert place.verify(
        "a.k AS k, cast(a.k as decimal(5,0)) / 3 AS third, result_time AS t, 0.0D AS zero"
    ).same


def test_intervals_are_microseconds_in_files(place):
    """As Spark writes them, in results and in sources."""
    select = "b.ts - a.ts AS gap, a.ts - timestamp'2023-01-01 00:00:00' AS long, a.d"
    where = "a.k = b.k AND a.k = 1"
    place.columns["a"] = {**COLUMNS, "d": "interval day to second"}
    place.write(A.append_column("d", pa.array([7, None, 0, 0, 0])), "a/0.parquet")
    year = 365 * 86_400 * 10**6
    rows = [(10**7, year, 7), (5 * 10**6, year + 5 * 10**6, None)]
    given = {"names": ("gap", "long", "d"), "schema": [pa.int64()] * 3}
    place.results(rows, **given)
    assert place.verify(select, where).same
    place.results([rows[0], (4, *rows[1][1:])], **given)
    verdict = place.verify(select, where)
    assert (verdict.missing, verdict.extra) == (1, 1)
    with pytest.raises(UserError, match="intervals inside the output column 'gap'"):
        place.verify(select.replace("b.ts - a.ts AS gap", "array(b.ts - a.ts) AS gap"), where)


def test_results_of_another_query_are_refused(place):
    place.results(JOINED)
    with pytest.raises(UserError, match="another query"):
        place.verify("a.v AS other, b.v AS vb, result_time")
    with pytest.raises(UserError, match="no results of query 'q'"):
        Place(place.root / "elsewhere").verify()


def test_damaged_files_are_the_users_to_mend(place):
    place.results(JOINED)
    (place.root / "out/results/q/1.parquet").write_text("no parquet at all")
    with pytest.raises(UserError, match="can't be read"):
        place.verify()
    (place.root / "out/results/q/1.parquet").unlink()
    (place.root / "a/1.parquet").write_text("no parquet at all")
    with pytest.raises(UserError, match="stream 'a'"):
        place.verify()


def test_an_expression_that_duckdb_lacks_is_named(place):
    place.results(JOINED)
    with pytest.raises(UserError, match="soundex"):
        place.verify("soundex(a.v) AS va, b.v AS vb, result_time")
    with pytest.raises(UserError, match="hash"):
        place.verify(where="hash(a.k) = hash(b.k)")


GROUPED = (
    "TUMBLE(result_time, INTERVAL '1' MINUTE) AS w, a.k, count(*) AS n, avg(a.f) AS m, sum(b.f) AS s",
    "a.k = b.k GROUP BY w, a.k",
)


def test_sums_of_floating_point_numbers_may_differ_in_the_last_digits(place):
    """The order of adding decides them."""
    columns = {"ts": "timestamp", "k": "int", "f": "double"}
    place.columns = {"a": columns, "b": columns}
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int32()), ("f", pa.float64())])
    values = [0.1, 0.2, 0.3, float("inf"), 0.7]
    keys = [1, 1, 1, 2, 3]
    for name in "ab":
        place.write(pa.table([[at(0)] * 5, keys, values], schema=schema), f"{name}/0.parquet")
    names = ("w", "k", "n", "m", "s")
    kinds = [pa.timestamp("us", tz="UTC"), pa.int32(), pa.int64(), pa.float64(), pa.float64()]
    infinite = float("inf")
    for mean, total, seven, wrong in (
        (0.2, 1.8, 0.7, 0),
        (0.19999999999999998, 1.7999999999999996, 0.7, 0),
        (0.2, 1.80001, 0.7, 1),
        (0.2, 1.8, math.nan, 1),
    ):
        rows = [
            (at(0), 1, 9, mean, total),
            (at(0), 2, 1, infinite, infinite),
            (at(0), 3, 1, 0.7, seven),
        ]
        place.results(rows, names=names, schema=kinds)
        found = place.verify(*GROUPED)
        assert (found.same, found.missing, found.extra) == (wrong == 0, wrong, wrong), found
        assert (found.expected, found.found) == (3, 3)
    place.results([*rows[:2], rows[1], (at(0), 3, 1, 0.7, 0.7)], names=names, schema=kinds)
    found = place.verify(*GROUPED)
    assert (found.same, found.missing, found.extra, found.found) == (False, 0, 1, 4)


def test_a_table_is_compared_as_the_run_has_read_it(place, bucket):
    place.paths["b"] = place.root / "b" / "0.parquet"
    known = place.catalog
    source = known.streams["b"].source
    b = Stream.of_table("b", "here", {"k": "int", "v": "string"}, source)
    known = known.model_copy(update={"streams": {**known.streams, "b": b}})
    sql = "SELECT a.v AS va, b.v AS vb, result_time FROM a JOIN b ON a.k = b.k"
    asked = parse(sql, name="q", schemas=known.schemas, times=known.times, tables=known.tables)
    kept = Kept.of(place.root / "out", "b")
    place.write(table((0, 1, "was")), str(kept.rows / "0.parquet"))
    kept.note(Version("2026-11-19T12:00:00+00:00", 1, digest_of(b)))
    place.results([("a0", "was", at(0)), ("a1", "was", at(5))])
    verdict = duck.verify(asked, known, place.root / "out")
    assert verdict.same, verdict
    told = {"read": "2026-11-19T12:00:00+00:00", "rows": 1, "changed": False}
    assert verdict.to_json()["tables"] == {"b": told}
    place.write(table((0, 2, "is")), "b/0.parquet")
    verdict = duck.verify(asked, known, place.root / "out")
    assert verdict.same
    assert verdict.to_json()["tables"] == {"b": {**told, "changed": True}}
    # The same folder in an object store, with a tuple that was kept aside.
    place.write(table((0, 1, "late")), "a/late.parquet")
    place.write(table((0, 1, "late")), "out/late/a/000000001.parquet")
    there = bucket / "verified"
    for file in (place.root / "out").rglob("*.*"):
        (there / str(file.relative_to(place.root / "out"))).put(file)
    assert duck.verify(asked, known, there) == duck.verify(asked, known, place.root / "out") == verdict

"""`thalweg stats`: what it prints, and what it writes into the catalog."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import wrong
from thalweg.catalog import load

STATS = ("stats", "q.sql", "--catalog", "catalog.yaml")
BEGIN = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def put(folder, stream, seconds, keys, values):
    """One file in place of what the stream has."""
    times = [None if s is None else BEGIN + datetime.timedelta(seconds=s) for s in seconds]
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": pa.array(keys, pa.int64()),
            "v": pa.array(values, pa.string()),
        }
    )
    pq.write_table(table, folder / "data" / stream / "0.parquet")


@pytest.fixture
def data(folder):
    put(folder, "s1", [n / 10 for n in range(101)], [n % 4 for n in range(101)], ["abc"] * 101)
    put(folder, "s2", [n / 2 for n in range(21)], [3] * 20 + [None], [None, *(["é"] * 20)])
    return folder


def test_json_has_the_shape_that_is_promised(data, thalweg):
    done = thalweg(*STATS, "--json")
    assert done.status == 0
    assert done.json == {
        "streams": {
            "s1": {
                "rate": 10.0,
                "bytes": 19.0,
                "widths": {"ts": 8.0, "k": 8.0, "v": 3.0},
                "distinct": {"k": 4.0},
                "rates": {"k": {"0": 2.574, "1": 2.475, "2": 2.475, "3": 2.475}},
                "tuples": 101,
            },
            "s2": {
                "rate": 2.0,
                "bytes": 17.9,
                "widths": {"ts": 8.0, "k": 8.0, "v": 1.905},
                "distinct": {"k": 1.0},
                "rates": {"k": {"3": 1.904}},
                "tuples": 21,
            },
        },
        "joins": [{"left": "s1.k", "right": "s2.k", "selectivity": 0.2357}],
    }


def test_a_table_for_readers(data, thalweg):
    done = thalweg(*STATS)
    assert done.status == 0
    assert "s1.k = s2.k: selectivity 0.2357" in done.out
    assert "0: 2.574, " in done.out


def test_values_are_shown_as_they_are(data, thalweg):
    """Neither as markup of the table nor with control characters."""
    (data / "q.sql").write_text((data / "q.sql").read_text().replace("a.k = b.k", "a.v = b.v"))
    put(data, "s1", range(12), range(12), ["[red]x[/]"] * 6 + ["a\x1b[0m"] * 6)
    shown = thalweg(*STATS)
    assert "[red]x[/]: " in shown.out
    assert "\x1b" not in shown.out


def test_writing_keeps_the_rest_of_the_file_and_does_nothing_twice(data, thalweg):
    path = data / "catalog.yaml"
    before = "# kept\n" + path.read_text().replace("{rate: 10}", "{rate: 3, distinct: {v: 9}}  # kept too")
    path.write_text(before)
    done = thalweg(*STATS, "--write", "--json")
    after = path.read_text()
    for line in before.splitlines():
        assert line in after or "stats:" in line
    read = load(path)
    assert read.streams["s1"].stats.distinct == {"v": 9, "k": 4}
    for name, found in done.json["streams"].items():
        stats = read.streams[name].stats
        assert (stats.rate, stats.bytes, stats.widths) == (found["rate"], found["bytes"], found["widths"])
        assert {str(v): r for v, r in stats.rates["k"].items()} == found["rates"]["k"]
    assert read.joins[0].selectivity == 0.2357
    assert thalweg(*STATS, "--write").out.endswith("written to catalog.yaml\n")
    assert path.read_text() == after
    plan = thalweg("plan", "q.sql", "--catalog", "catalog.yaml", "--json").json
    assert plan["queries"][0]["assumed"] == []


def test_a_stream_without_tuples_is_said_to_be_unknown(data, thalweg):
    put(data, "s2", [], [], [])
    done = thalweg(*STATS, "--json")
    assert done.json["streams"]["s2"] == {"widths": {}, "distinct": {}, "rates": {}, "tuples": 0}
    assert done.json["joins"] == []
    shown = thalweg(*STATS, "--write")
    assert "s2: no tuples, so nothing is known of it" in shown.out
    assert load(data / "catalog.yaml").streams["s2"].stats.rate is None


def test_tuples_at_one_time_have_no_rate(data, thalweg):
    put(data, "s2", [1, 1, None], [1, 2, 3], ["a", "b", "c"])
    done = thalweg(*STATS)
    assert "s2: its tuples span no time, so its rate is unknown" in done.out
    assert thalweg(*STATS, "--json").json["streams"]["s2"]["tuples"] == 2


def test_wrong_input(data, thalweg):
    (data / "none.sql").write_text((data / "q.sql").read_text().replace("s2", "s3"))
    assert "s3" in wrong(thalweg("stats", "none.sql", "--catalog", "catalog.yaml"))
    assert "--catalog" in wrong(thalweg("stats", "q.sql"))
    (data / "data/s2/0.parquet").write_bytes(b"nothing that is parquet")
    assert "'s2' can't be read" in wrong(thalweg(*STATS))
    (data / "data/s2/0.parquet").unlink()
    (data / "data/s2").rmdir()
    before = (data / "catalog.yaml").read_text()
    assert "there is nothing at" in wrong(thalweg(*STATS, "--write"))
    assert (data / "catalog.yaml").read_text() == before

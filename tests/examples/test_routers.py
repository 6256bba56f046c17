"""The routers: statistics are measured, and the plan made with them ships far less than the central one."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.simulate.sites_estimates import hosted
from thalweg.api.inputs import read_queries
from thalweg.catalog import Stats, load
from thalweg.catalog.edit import updated
from thalweg.demo.packets import ELSEWHERE, HOSTS, PACKETS_PER_S, ROUTERS, rates
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import make_plan

GIVEN = ("routers.sql", "--catalog", "catalog.yaml")


@pytest.fixture
def routers(example, capsys):
    """The example with twenty seconds of packets."""
    made = example("routers")
    made.make.main(["--seconds", "20", "--out", "data"])
    assert "packets" in capsys.readouterr().out
    return made


@pytest.fixture
def measured(routers):
    routers.command("stats", *GIVEN, "--write")
    return routers


def with_true_rates(catalog):
    """The catalog with the rates that packets are drawn at."""
    distinct = len(ROUTERS) * HOSTS + ELSEWHERE
    return updated(
        catalog,
        {
            name: Stats(
                rate=rate, distinct={"dest": distinct}, rates={"dest": rates(name)}, widths={"dest": 8}
            )
            for name, rate in PACKETS_PER_S.items()
        },
    )


def shipped(catalog, planned_with):
    """The payload that the plan made with some statistics ships over the packets there are."""
    (query,) = read_queries([Path("routers.sql")], catalog)
    (planned,) = make_plan([query], planned_with, PlanOptions("auto")).queries
    columns = {"ts": pa.timestamp("us", "UTC"), "dest": pa.string(), "size": pa.int64()}
    host = hosted(catalog, query, planned.deployment, columns, pa.string())
    for n in range(4):
        rows = {name: pq.read_table(f"data/{name}/part-{n:04}.parquet") for name in catalog.streams}
        batches = {name: table.combine_chunks().to_batches()[0] for name, table in rows.items()}
        host.batch({name: b.select(list(columns)) for name, b in batches.items()}, host.waiting)
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    return sum(s.payload for way, s in host.traffic.items() if way[0] != way[1])


def test_the_catalog_of_the_example_has_no_statistics(example):
    found = example("routers").catalog
    assert all(stream.stats == Stats() for stream in found.streams.values())
    assert found.joins == ()


def test_a_plan_for_each_part_of_the_key_space_ships_much_less(measured):
    found = measured.command("compare", *GIVEN)
    cost = {p["name"]: p["cost"] for p in found["planners"]}
    assert cost["auto"] == pytest.approx(cost["pmjoin-optimal"])
    assert cost["simple"] > 10 * cost["auto"]
    assert cost["optimal"] > 10 * cost["auto"]


@pytest.mark.parametrize("planner", ["auto", "optimal"])
def test_planning_with_measured_statistics_assumes_nothing(measured, planner):
    (query,) = measured.command("plan", *GIVEN, "--planner", planner)["queries"]
    assert query["assumed"] == []


def test_the_measured_rates_are_those_that_packets_are_drawn_at(measured):
    for name, stream in load("catalog.yaml").streams.items():
        assert stream.stats.rate == pytest.approx(PACKETS_PER_S[name], rel=0.05)
        for host, rate in rates(name).items():
            if rate > 10:
                assert stream.stats.rates["dest"][host] == pytest.approx(rate, rel=0.2)


def test_the_plan_with_measured_statistics_ships_as_little_as_that_with_true_rates(measured):
    catalog = load("catalog.yaml")
    assert shipped(catalog, catalog) <= 1.1 * shipped(catalog, with_true_rates(measured.catalog))


def test_packets(measured):
    for name, rate in PACKETS_PER_S.items():
        assert len(list(measured.home.glob(f"data/{name}/*.parquet"))) == 4
        seen = dict(
            duckdb.execute(f"SELECT dest, count(*) FROM 'data/{name}/*.parquet' GROUP BY 1").fetchall()
        )
        assert sum(seen.values()) == pytest.approx(20 * rate, rel=0.1)
        host, most = max(rates(name).items(), key=lambda pair: pair[1])
        assert seen[host] == pytest.approx(20 * most, rel=0.2)
    (query,) = measured.command("plan", *GIVEN)["queries"]
    edges, sinks = query["deployment"]["edges"], query["deployment"]["operators"]
    into = {o["id"] for o in sinks if o["kind"] == "sink"}
    expected = sum(e["tuples_per_s"] for e in edges if e["to"] in into)
    assert measured.results("routers.sql") == pytest.approx(20 * expected, rel=0.25)
    with pytest.raises(SystemExit):
        measured.make.main(["--seconds", "0"])

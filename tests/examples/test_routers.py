"""The routers: the plan that is chosen ships far less than the central one; packets are as declared."""

import duckdb
import pytest

from thalweg.demo.packets import PACKETS_PER_S, rates


def test_a_plan_for_each_part_of_the_key_space_ships_much_less(example):
    found = example("routers").command("compare", "routers.sql", "--catalog", "catalog.yaml")
    cost = {p["name"]: p["cost"] for p in found["planners"]}
    assert cost["auto"] == pytest.approx(cost["pmjoin-optimal"])
    assert cost["simple"] > 10 * cost["auto"]
    assert cost["optimal"] > 10 * cost["auto"]


@pytest.mark.parametrize("planner", ["auto", "optimal"])
def test_planning_assumes_nothing(example, planner):
    arguments = ("plan", "routers.sql", "--catalog", "catalog.yaml", "--planner", planner)
    (query,) = example("routers").command(*arguments)["queries"]
    assert query["assumed"] == []


def test_the_catalog_has_the_rates_that_packets_are_drawn_at(example):
    routers = example("routers")
    for name, stream in routers.catalog.streams.items():
        assert stream.stats.rate == PACKETS_PER_S[name]
        assert stream.stats.rates["dest"] == pytest.approx(rates(name), rel=0.001)


def test_packets(example, capsys):
    routers = example("routers")
    routers.make.main(["--seconds", "20", "--out", "data"])
    assert "packets" in capsys.readouterr().out
    for name, rate in PACKETS_PER_S.items():
        assert len(list(routers.home.glob(f"data/{name}/*.parquet"))) == 4
        seen = dict(
            duckdb.execute(f"SELECT dest, count(*) FROM 'data/{name}/*.parquet' GROUP BY 1").fetchall()
        )
        assert sum(seen.values()) == pytest.approx(20 * rate, rel=0.1)
        host, most = max(rates(name).items(), key=lambda pair: pair[1])
        assert seen[host] == pytest.approx(20 * most, rel=0.2)
    (query,) = routers.command("plan", "routers.sql", "--catalog", "catalog.yaml")["queries"]
    edges, sinks = query["deployment"]["edges"], query["deployment"]["operators"]
    into = {o["id"] for o in sinks if o["kind"] == "sink"}
    expected = sum(e["tuples_per_s"] for e in edges if e["to"] in into)
    assert routers.results("routers.sql") == pytest.approx(20 * expected, rel=0.25)
    with pytest.raises(SystemExit):
        routers.make.main(["--seconds", "0"])

"""`thalweg run` across sites: whatever the plan, the results are those of DuckDB, each once."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal

import pytest

from thalweg.plan.one_way import METHODS
from thalweg.planners.table import PLANNERS

from .feed import SECOND, Feed, catalog_yaml, results_of, written
from .places import (
    CHAIN,
    COLUMNS,
    DISTINCT,
    GROUPS,
    HALF,
    NARROW,
    OUTER,
    STAR,
    TWICE,
    WIDE,
    WINDOWS,
    Place,
    batches,
    check_complete,
    place,
    with_windows,
)
from .test_run import files_of

JITTER = ("--jitter", 1)


def check(made, thalweg, *more):
    """Run all queries of a place to the end; the metrics and the plan."""
    code, out, err = thalweg(*made.run(*more), cwd=made.root)
    assert (code, err) == (0, ""), err
    metrics = json.loads(out)
    check_complete(made, metrics, thalweg)
    return metrics, json.loads((made.root / "out" / "plan.json").read_text())


def operators(plan, query=0):
    return plan["queries"][query]["deployment"]["operators"]


def check_done(made, thalweg, *more):
    """A further run says that it is complete, and changes nothing."""
    before = files_of(made.root / "out")
    arguments = [a for a in made.run(*more) if a != "--json"]
    code, out, err = thalweg(*arguments, cwd=made.root)
    assert code == 0
    assert "complete" in out + err
    assert files_of(made.root / "out") == before


@pytest.mark.long
@pytest.mark.parametrize("name", [p.name for p in PLANNERS if p.name != "local"])
@pytest.mark.parametrize("sql", [CHAIN, STAR], ids=["chain", "star"])
def test_every_planner(tmp_path, thalweg, name, sql):
    made = place(tmp_path, sql, seed=len(name), skewed=sql is STAR)
    check(made, thalweg, "--planner", name, *JITTER)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_each_method_alone(tmp_path, thalweg, method):
    number = METHODS.index(method)
    made = place(tmp_path, (CHAIN, STAR)[number % 2], seed=number)
    check(made, thalweg, "--plan", made.by_sequences("plan.json", [method]), *JITTER)


@pytest.mark.long
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("kind", ["optimal", "mixed", "pmjoin"])
def test_other_windows(tmp_path, thalweg, windows, kind):
    sql = with_windows(STAR if kind == "pmjoin" else CHAIN, windows)
    made = place(tmp_path, sql, seed=len(windows), skewed=kind == "pmjoin")
    chosen = ("--plan", made.by_sequences("plan.json")) if kind == "mixed" else ("--planner", kind)
    check(made, thalweg, *chosen, *JITTER)


@pytest.mark.parametrize(
    ("planner", "at"),
    [
        ("optimal", "1234"),
        pytest.param("auto", "1234", marks=pytest.mark.long),
        pytest.param("pmjoin", "1122", marks=pytest.mark.long),
        pytest.param("optimal", "1111", marks=pytest.mark.long),
    ],
)
def test_outer_joins(tmp_path, thalweg, planner, at):
    made = place(tmp_path, OUTER, seed=8, at={a: f"n{n}" for a, n in zip("abcd", at, strict=True)})
    check(made, thalweg, "--planner", planner, *JITTER)
    rows = results_of(tmp_path / "out")
    missing = Counter((row[2] is None, row[3] is None) for row in rows)
    assert min(missing[none] for none in [(False, False), (False, True), (True, True)]) > 10


@pytest.mark.parametrize(
    ("planner", "at"),
    [
        ("optimal", "1234"),
        *(pytest.param(p, "1234", marks=pytest.mark.long) for p in ("auto", "pmjoin", "linear-optimal")),
        pytest.param("optimal", "1111", marks=pytest.mark.long),
    ],
)
def test_groups(tmp_path, thalweg, planner, at):
    sites = {a: f"n{n}" for a, n in zip("abcd", at, strict=True)}
    # Of the planners for parts of the key space, and of probe sequences, none has outer joins.
    queries = {"q": GROUPS, "r": DISTINCT} if planner in ("optimal", "auto") else {"q": GROUPS}
    made = place(tmp_path, queries, seed=8, at=sites)
    check(made, thalweg, "--planner", planner, *JITTER)


def test_the_plan_of_an_outer_join_can_not_change(tmp_path, thalweg):
    made = place(tmp_path, OUTER, seed=8)
    code, _, err = thalweg(*made.run("--adapt", "distributed"), cwd=tmp_path)
    assert code == 2
    assert "query q has an outer join, so its plan can't change; leave --adapt out" in err


@pytest.mark.long
@pytest.mark.parametrize("planner", ["optimal", "auto"])
@pytest.mark.parametrize(
    "queries",
    [
        {"half": HALF, "whole": CHAIN},
        {"half": HALF, "whole": CHAIN, "narrow": NARROW},
        {"narrow": NARROW, "half": HALF, "wide": WIDE},
        {"whole": CHAIN, "wide": WIDE, "half": HALF},
    ],
    ids=["two", "three", "growing", "widened"],
)
def test_several_queries(tmp_path, thalweg, planner, queries):
    made = place(tmp_path, queries, seed=len(queries))
    _, plan = check(made, thalweg, "--planner", planner, *JITTER)
    if planner == "optimal":
        kinds = [o["kind"] for n in range(len(queries)) for o in operators(plan, n)]
        assert "reuse" in kinds
    check_done(made, thalweg, "--planner", planner, *JITTER)


@pytest.mark.long
@pytest.mark.parametrize("planner", ["simple", "optimal", "linear-optimal", "semijoin-greedy", "pmjoin"])
def test_results_are_delivered_to_a_site(tmp_path, thalweg, planner):
    made = place(tmp_path, seed=3)
    metrics, plan = check(made, thalweg, "--planner", planner, "--deliver-to", "n1", *JITTER)
    assert [o["site"] for o in operators(plan) if o["kind"] == "sink"] == ["n1"]
    assert "n1" in {s["to"] for s in metrics["shipped"]}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["optimal", "mixed", "linear-optimal", "pmjoin"])
def test_a_stream_under_two_aliases(tmp_path, thalweg, kind):
    made = place(tmp_path, TWICE, seed=4)
    chosen = ("--plan", made.by_sequences("plan.json")) if kind == "mixed" else ("--planner", kind)
    check(made, thalweg, *chosen, *JITTER)


LINKS = """links:
  default: {latency_ms: 300, mbps: 0.5}
  pairs:
    - {between: [n1, n2], latency_ms: 900, mbps: 0.1}
    - {from: n4, to: n3, latency_ms: 50, mbps: 2}
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["optimal", "mixed"])
def test_slow_links(tmp_path, thalweg, kind):
    made = place(tmp_path, seed=5, more=LINKS)
    chosen = ("--plan", made.by_sequences("plan.json")) if kind == "mixed" else ("--planner", kind)
    check(made, thalweg, *chosen, "--emulate", "--jitter", 0.5)


@pytest.mark.long
@pytest.mark.parametrize("at", ["1122", "1213", "1111"])
@pytest.mark.parametrize("kind", ["optimal", "mixed", "auto"])
def test_streams_that_share_sites(tmp_path, thalweg, at, kind):
    made = place(tmp_path, seed=6, at={a: f"n{n}" for a, n in zip("abcd", at, strict=True)})
    chosen = ("--plan", made.by_sequences("plan.json")) if kind == "mixed" else ("--planner", kind)
    check(made, thalweg, *chosen, *JITTER)


@pytest.mark.long
def test_ten_sites_and_ten_queries(tmp_path, thalweg):
    """Each query joins three streams in a row; neighbours have two of them in common."""
    rng = random.Random(10)
    names = [f"s{n}" for n in range(10)]
    feeds = {
        name: Feed(
            COLUMNS,
            batches(rng, 3, 20, 30.0, range(6)),
            lateness=6 * SECOND,
            order=("id",),
            extra={"stats": "{rate: 2.0, distinct: {k: 12}}"},
        )
        for name in names
    }
    at = {name: f"n{n}" for n, name in enumerate(names)}
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds, at=at))
    queries = {}
    for n in range(10):
        a, b, c = (names[(n + i) % 10] for i in range(3))
        queries[f"q{n}"] = (
            f"SELECT {a}.id AS x, {b}.id AS y, {c}.id AS z, result_time FROM {a} [RANGE 5 SECONDS], "
            f"{b} [RANGE 5 SECONDS], {c} [RANGE 5 SECONDS] WHERE {a}.k = {b}.k AND {b}.k = {c}.k"
        )
        (tmp_path / f"q{n}.sql").write_text(queries[f"q{n}"])
    made = Place(tmp_path, feeds, queries, at)
    code, _, err = thalweg(*made.run("--planner", "optimal"), cwd=tmp_path)
    assert (code, err) == (0, "")
    for name in queries:
        assert results_of(tmp_path / "out", name) == made.expected(name), name


@pytest.mark.parametrize("at", [{"a": "n1", "b": "n1"}, {"a": "n2", "b": "n3"}], ids=["one site", "sites"])
def test_decimals_of_38_digits_are_compared_as_in_sparks_own_join(tmp_path, spark, thalweg, at):
    """No decimal holds both types, so Spark rounds one: 2 equals 1.50 and 2.49."""
    keys = {
        "a": ("decimal(38,0)", ["1", "2", "9" * 38, "1" + "0" * 36, "123456" * 6, "-5", None]),
        "b": (
            "decimal(38,2)",
            ["1.00", "1.50", "2.49", "9" * 36 + ".99", "123456" * 6 + ".00", "-4.50", None],
        ),
    }
    feeds = {
        name: Feed(
            {"ts": "timestamp", "k": kind, "id": "int"},
            [[{"ts": n * SECOND, "k": v and Decimal(v), "id": n} for n, v in enumerate(values)]],
        )
        for name, (kind, values) in keys.items()
    }
    folder = written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds, at=at))
    sql = "SELECT a.id AS x, b.id AS y FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    (tmp_path / "q.sql").write_text(sql)
    made = Place(tmp_path, feeds, {"q": sql}, at)
    code, _, err = thalweg(*made.run(), cwd=tmp_path)
    assert (code, err) == (0, "")
    a, b = (feeds[name].static(spark, folder / name).alias(name) for name in "ab")
    own = Counter(tuple(row) for row in a.join(b, a.k == b.k).select("a.id", "b.id").collect())
    assert results_of(tmp_path / "out") == own
    assert own.keys() >= {(0, 0), (1, 1), (1, 2), (4, 4)}
    verify = ("verify", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--json")
    code, said, err = thalweg(*verify, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert json.loads(said)["same"] is True

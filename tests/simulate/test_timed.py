"""Plans on a simulated clock: results as the rule has them, links and sites that take time, rates alone."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pytest

from tests.planners.examples import catalog, links, query, stream
from thalweg.catalog.model import Costs, Link, Links, Site, Stats
from thalweg.errors import UserError
from thalweg.oracle import duck
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.simulate import expressions, flows, tuples
from thalweg.simulate.changes import Change, phases, read_changes
from thalweg.simulate.links import Transport
from thalweg.simulate.streams import Streams, columns_read

COLUMNS = {"k": "long", "name": "string", "v": "int"}


def known_of(
    brought=(200.0, 120.0, 300.0), *, mbps=None, latency_ms=20.0, speed=1.0, interval_s=0.1, **stats
):
    """Streams a, b and c at a site each."""
    more = stats or {"distinct": {"k": 150.0, "name": 20.0, "v": 10.0}}
    made = [
        stream(name, f"n{n}", COLUMNS, rate=rate, widths={"name": 8}, **more)
        for n, (name, rate) in enumerate(zip("abc", brought, strict=True))
    ]
    known = catalog(
        [s.model_copy(update={"lateness": 0, "order": ()}) for s in made],
        links=Links(default=Link(latency_ms=latency_ms, mbps=mbps)),
        costs=Costs(interval_s=interval_s),
    )
    return known.model_copy(update={"sites": {n: Site(speed=speed) for n in known.sites}})


SQL = (
    "SELECT a.v + b.v AS n, b.name, c.v, result_time FROM a [RANGE 400 MILLISECONDS], "
    "b [RANGE 600 MILLISECONDS], c [RANGE 500 MILLISECONDS] "
    "WHERE a.k = b.k AND b.k = c.k"
)


def planned(known, asked, name="optimal", objective="bytes", **settings):
    options = PlanOptions(name, Objective(objective), None, settings)
    return make_plan([asked], known, options)


def simulated(known, sql=SQL, name="optimal", seconds=10.0, objective="bytes", how=tuples, changes=()):
    asked = query(sql, known)
    return how.simulate([asked], known, planned(known, asked, name, objective), seconds, 3, changes)


def by_duckdb(asked, known, streams) -> Counter:
    with duck.connect() as con:
        duck.load(con, asked, known, read_static=lambda one: pa.Table.from_batches([streams.rows(one.name)]))
        return Counter(con.execute(duck.expected_sql(asked, known)).fetchall())


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("optimal", ""),
        ("linear-optimal", " AND a.v <> 3 AND a.v < c.v + 4"),
        ("pmjoin", " AND b.name = 'v1' AND c.ts >= a.ts"),
    ],
)
def test_results_are_those_of_the_rule(name, where):
    known = known_of()
    asked = query(SQL + where, known)
    made = tuples.compiled([asked], known, [q.deployment for q in planned(known, asked, name).queries])
    streams = Streams([asked], known, made.selections, 4.0, 1)
    found: Counter = Counter()
    with expressions.connected() as con:

        def keep(number, results):
            rows = expressions.outputs(con, made.results[number], known, results).to_pylist()
            found.update(tuple(row.values()) for row in rows)
            return expressions.passing(con, made.results[number], known, results)

        done = tuples.run(made, known, streams, keep)
    wanted = by_duckdb(asked, known, streams)
    assert wanted
    assert found == wanted
    assert done.trace.results[0] == sum(wanted.values())
    assert done.timed.host.report.read == {s: streams.rows(s).num_rows for s in "abc"}


SETTINGS = {
    "a tree": ("optimal", {"distinct": {"k": 150.0, "name": 20.0, "v": 10.0}}),
    "probe sequences": ("linear-optimal", {"distinct": {"k": 150.0, "name": 20.0, "v": 10.0}}),
    "shares": ("simple", {"rates": {"k": {n: 10.76 / (n + 1) ** 0.5 for n in range(100)}}}),
    "assumed": ("optimal", {"bytes": 40.0}),
}


@pytest.mark.parametrize(
    "setting", [s if s != "shares" else pytest.param(s, marks=pytest.mark.long) for s in SETTINGS]
)
def test_rates_alone_give_what_tuples_give_within_5_percent(setting):
    name, stats = SETTINGS[setting]
    known = known_of((200.0, 200.0, 200.0), interval_s=0.2, **stats)
    followed, rated = (simulated(known, name=name, seconds=50.0, how=how) for how in (tuples, flows))
    assert rated.results["q"] == pytest.approx(followed.results["q"], rel=0.05, abs=80)
    ways = {(s.source, s.target): s for s in followed.shipped if s.payload_bytes}
    assert ways.keys() == {(s.source, s.target) for s in rated.shipped}
    for s in rated.shipped:
        assert ways[s.source, s.target].payload_bytes == pytest.approx(s.payload_bytes, rel=0.05)
    means = [sum(c for _, c in one.cost) / 50 for one in (followed, rated)]
    assert means[1] == pytest.approx(means[0], rel=0.05)
    assert rated.tuple_hops == pytest.approx(followed.tuple_hops, rel=0.05)


def test_the_cost_in_time_is_that_of_the_plan():
    known = known_of(mbps=10.0)
    asked = query(SQL, known)
    for name in ("linear-greedy", "simple"):
        plan = planned(known, asked, name, "time")
        found = tuples.simulate([asked], known, plan, 20.0, 3)
        mean = sum(cost for second, cost in found.cost if 2 <= second < 19) / 17
        assert mean == pytest.approx(plan.total, rel=0.1), name


def test_links_send_one_message_after_another_and_pass_on_along_the_quickest_path():
    known = catalog(
        [stream("a", "n1", {"k": "long"})],
        sites=["n1", "n2", "n3"],
        links=links({("n1", "n2"): (10, 8, 0), ("n2", "n3"): (20, 4, 0), ("n1", "n3"): (50, 80, 0)}),
    )
    transport = Transport(known)
    assert [way for way, _ in transport.hops("n1", "n3")] == [("n1", "n2"), ("n2", "n3")]
    # 1000 bytes take 1 ms on the first link, 2 ms on the second.
    assert transport.send(0, "n1", "n3", 1000) == 33_000
    assert transport.send(0, "n1", "n3", 1000) == 35_000  # waits for the first on the slower link
    assert transport.send(0, "n1", "n2", 1000) == 13_000
    assert transport.used["n1", "n2"].longest_wait_us == 2000
    assert transport.send(0, "n1", "n3", 0) == 35_000  # what carries nothing does not overtake


def test_slow_links_and_slow_sites_delay_results():
    usual = simulated(known_of(), name="simple", seconds=5.0)
    narrow = simulated(known_of(mbps=0.02), name="simple", seconds=5.0)
    slow = simulated(known_of(speed=0.01), name="simple", seconds=5.0)
    assert usual.results == narrow.results == slow.results
    assert usual.shipped == slow.shipped
    assert 0.02 < usual.delay_s["p50"] < usual.delay_s["max"] < 0.2
    assert narrow.delay_s["max"] > 1.0
    assert max(one.busy for one in narrow.links) > 0.9
    assert max(one.longest_wait_s for one in narrow.links) > 1.0
    assert slow.delay_s["p50"] > usual.delay_s["p50"] + 0.01
    assert max(slow.busy.values()) == pytest.approx(100 * max(usual.busy.values()), rel=0.2)


def ratio(found):
    """The cost after a change to that before."""
    cost = dict(found.cost)
    return sum(cost[s] for s in range(7, 11)) / sum(cost[s] for s in range(1, 5))


def test_a_stream_that_changes():
    known = known_of()
    changes = (Change(6_000_000, "c", Stats(rate=900.0)), Change(9_500_000, "c", Stats(rate=0.0)))
    for how in (tuples, flows):
        # All is shipped to the fastest stream at first, c: what its rate becomes does not matter.
        assert ratio(simulated(known, name="simple", seconds=12.0, how=how, changes=changes)) == (
            pytest.approx(1.0, rel=0.15)
        )
        faster = (Change(6_000_000, "a", Stats(rate=600.0)),)
        assert ratio(simulated(known, name="simple", seconds=12.0, how=how, changes=faster)) == (
            pytest.approx((600 + 120) / (200 + 120), rel=0.15)
        )


def test_changes_of_statistics_add_up():
    known = known_of(rates={"k": {1: 30.0, 2: 10.0}})
    changes = (Change(1_000_000, "a", Stats(rate=400.0)), Change(2_000_000, "a", Stats(distinct={"v": 3})))
    found = phases(known, changes, 3_000_000)
    assert [(low, high) for low, high, _ in found] == [
        (0, 1_000_000),
        (1_000_000, 2_000_000),
        (2_000_000, 3_000_000),
    ]
    last = found[-1][2].streams["a"].stats
    assert (last.rate, last.rates["k"], last.distinct) == (400.0, {1: 60.0, 2: 20.0}, {"v": 3.0})
    assert found[0][2] is known


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at: 3", "line 1: expected a list, found a mapping"),
        ("- {at: 3}", "line 1: [0]: the key 'stream' is missing"),
        ("- {at: 3, stream: d, rate: 3}", "unknown stream 'd'"),
        ("- {at: 3, stream: a}", "nothing changes"),
        ("- {at: 3, stream: a, rate: -1}", "[0].rate: -1 must be zero or more"),
        (
            "- {at: 3, stream: a, rate: 1}\n- {at: soon, stream: a, rate: 1}",
            "line 2: [1].at: expected a number",
        ),
        ("- {at: 3, stream: a, distinct: {z: 4}}", "unknown column 'z'"),
        ("- {at: 3, stream: a, rates: {k: {x: 4}}}", "'x' is not a value of a column of type bigint"),
        ("- {at: 3, stream: a, speed: 4}", "unknown key 'speed'"),
        ("", "the file of changes is empty"),
    ],
)
def test_mistakes_in_a_file_of_changes_are_named(tmp_path, text, said):
    path = tmp_path / "changes.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_changes(path, known_of())
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_streams_follow_their_statistics():
    sql = SQL.replace("a.k = b.k", "a.k = b.k AND a.name = 'special'")
    known = known_of((500.0, 400.0, 300.0), rates={"k": {7: 30.0, 8: 10.0}}, distinct={"name": 5.0, "v": 4.0})
    asked = query(sql, known)
    made = tuples.compiled([asked], known, [q.deployment for q in planned(known, asked).queries])
    streams = Streams([asked], known, made.selections, 20.0, 1)
    for name, rate in zip("abc", (500, 400, 300), strict=True):
        rows = streams.rows(name)
        times = rows.column("ts").cast(pa.int64()).to_pylist()
        assert rows.num_rows == pytest.approx(20 * rate, rel=0.05)
        assert all(a < b for a, b in itertools.pairwise(times))
        counted = Counter(rows.column("k").to_pylist())
        assert counted[7] == pytest.approx(20 * 30, rel=0.2)
        assert counted[8] == pytest.approx(20 * 10, rel=0.3)
        assert rows.num_rows == streams.rows(name).num_rows
    assert Counter(streams.rows("a").column("name").to_pylist())["special"] == pytest.approx(2000, rel=0.1)
    assert len(set(streams.rows("a").column("name").to_pylist())) == 5
    assert {len(t) for t in streams.rows("b").column("name").to_pylist()} <= {7, 8}
    assert set(streams.rows("c").column("v").to_pylist()) == {0, 1, 2, 3}
    again = Streams([asked], known, made.selections, 20.0, 2)
    assert again.rows("a") != streams.rows("a")


def test_what_can_not_be_simulated_is_said():
    known = known_of()
    outer = query("SELECT a.v FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k", known)
    with pytest.raises(UserError, match="outer join"):
        flows.simulate([outer], known, planned(known, outer, "simple"), 5.0, 1)
    static = {**known.streams, "b": known.streams["b"].model_copy(update={"table": True})}
    with pytest.raises(UserError, match="the table b, which is not simulated"):
        columns_read([query(SQL, known)], known.model_copy(update={"streams": static}))
    odd = query("SELECT a.v FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.name", known)
    with pytest.raises(UserError, match="cast one side"):
        tuples.simulate([odd], known, planned(known, odd, "simple"), 5.0, 1)


def test_an_outer_join_is_followed_tuple_by_tuple():
    known = known_of()
    asked = query(
        "SELECT a.v, b.v AS w FROM a [RANGE 100 MILLISECONDS] "
        "LEFT JOIN b [RANGE 100 MILLISECONDS] ON a.k = b.k",
        known,
    )
    plan = planned(known, asked, "simple")
    made = tuples.compiled([asked], known, [q.deployment for q in plan.queries])
    streams = Streams([asked], known, made.selections, 3.0, 3)
    found = tuples.simulate([asked], known, plan, 3.0, 3)
    assert found.results["q"] == sum(by_duckdb(asked, known, streams).values())
    assert not flows.too_large(plan, known, 3.0)
    assert flows.too_large(plan, known, 1e6)

"""The experiments of adaptive."""

import pytest

from thalweg.catalog.load import load
from thalweg.plan.node_operators import compare
from thalweg.reproduce import (
    adaptive,
    adaptive_costs,
    adaptive_fig4,
    adaptive_fig4a_spark,
    adaptive_fig5,
    adaptive_table3,
)
from thalweg.reproduce import adaptive_messages as messages
from thalweg.reproduce.adaptive import CHANGES_US, END_US, HIGH, LOW, USUAL
from thalweg.reproduce.adaptive_costs import ADAPTIVE, CHEAPEST, GREEDY, STATIC
from thalweg.reproduce.adaptive_run import COPIES, MESSAGES, RESULTS, reported, run
from thalweg.reproduce.adaptive_table3 import CENTRAL, DISTRIBUTED, DOWN, PAPER, UP
from thalweg.reproduce.files import write


def silent(line):
    pass


@pytest.fixture(scope="module")
def table3():
    return adaptive_table3.run(1.0, silent)


def test_central_counts_are_the_papers(table3):
    found = {(row[1], row[0], row[2]): row[3:7] for row in table3.rows}
    assert set(found) == set(PAPER)
    for (size, how, way), (modification, migration, synchronisation, windows) in found.items():
        assert migration == synchronisation + windows
        if how == CENTRAL:
            assert (modification, synchronisation) == (size, PAPER[size, how, way][2])
        else:
            assert modification > size


def test_table_3_says_which_of_its_claims_hold(table3):
    assert [claim.holds for claim in table3.claims] == [True] * 4 + [False, True, True, False]
    assert all(claim.why for claim in table3.claims if not claim.holds)
    assert len(table3.panels) == 2
    assert {UP, DOWN} == {row[2] for row in table3.rows}
    assert {CENTRAL, DISTRIBUTED} == {row[0] for row in table3.rows}


def test_one_stream_changes_its_rate_and_tuples_are_as_wide_as_the_papers():
    made = adaptive.rows(4, 3)
    second = 1_000_000
    counts = {name: one.between(2 * second, 3 * second).num_rows for name, one in made.items()}
    assert counts == {"s1": USUAL, "s2": HIGH, "s3": USUAL, "s4": USUAL}
    assert made["s2"].between(4 * second, 5 * second).num_rows == LOW
    for one in made.values():
        assert one.times[-1] < END_US
        values = one.batch.column("j").to_pylist()
        wide = {
            len(v) + len(rest) for v, rest in zip(values, one.batch.column("rest").to_pylist(), strict=True)
        }
        assert wide == {150}
        assert 90 < len(set(values)) <= 100


def test_a_rate_is_reported_when_it_has_moved_by_a_fifth():
    then, measured = adaptive.catalog(4, 50.0), adaptive.catalog(4, 59.0)
    assert reported(then, measured) == then
    assert reported(then, adaptive.catalog(4, 61.0)).streams["s2"].stats.rate == 61.0


def deployed(rate):
    return adaptive.planned(4, rate).queries[0].deployment


def test_messages_are_those_of_table_3(table3):
    low, high = (adaptive.catalog(4, rate) for rate in (LOW, HIGH))
    before, after = deployed(LOW), deployed(HIGH)
    counted = {(row[0], row[2]): row[3:5] for row in table3.rows if row[1] == 4}
    asked = messages.central(low, high, before, after)
    found = messages.distributed(low, high, before)
    moved = messages.migration(before, after)
    assert (asked.messages, moved.messages) == counted[CENTRAL, UP]
    assert (found.messages, moved.messages) == counted[DISTRIBUTED, UP]
    assert moved.messages == 24 + sum(len(c.moves) for c in compare(before, after).values())
    # Each takes the latency at least, and several are on their way at once.
    for one in (asked, found, moved):
        assert one.total_s > 0.005 * one.messages
        assert 0.005 <= one.elapsed_s < one.total_s


def test_a_report_that_changes_nothing_is_one_message():
    low, high = (adaptive.catalog(4, rate) for rate in (LOW, HIGH))
    assert messages.central(low, high, deployed(LOW), None).messages == 1
    assert messages.distributed(low, low, deployed(LOW)) == messages.Exchanged()


@pytest.fixture(scope="module")
def traces():
    """The runs that adapt, which both figures have."""
    plan, made = adaptive.planned(4, LOW), adaptive.rows(4, 0)
    return {way: run(4, made, plan, way) for way in (CENTRAL, DISTRIBUTED)}


@pytest.fixture(scope="module")
def costs(traces):
    def known(streams, rows, plan, adapt=""):
        return traces[adapt] if adapt else run(streams, rows, plan)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(adaptive_costs, "run", known)
        return adaptive_costs.averaged(4, 1, silent)


def test_runs_that_adapt_have_the_results_of_duckdb_and_settle_at_the_greedy_plan(costs):
    assert costs.same
    assert costs.results > 100
    for plan in ADAPTIVE:
        assert costs.apart(plan) == 0.0
        for phase in range(1, len(CHANGES_US) + 1):
            assert costs.settled(plan, phase) == pytest.approx(costs.settled(GREEDY, phase), rel=0.05)
        for phase in (1, 3):
            assert costs.settled(plan, phase) < 0.8 * costs.settled(STATIC, phase)


def test_changing_plans_is_what_adapting_costs(costs):
    for kind in (COPIES, MESSAGES):
        assert costs.total(STATIC, (kind,)) == 0.0
        assert all(costs.total(plan, (kind,)) > 0.1 for plan in ADAPTIVE)
    assert costs.total(CHEAPEST) < costs.total(GREEDY) < costs.total(STATIC)
    for plan in ADAPTIVE:
        assert costs.total(plan, (RESULTS,)) == pytest.approx(costs.total(STATIC, (RESULTS,)), rel=0.05)


def test_figure_4_says_which_of_its_claims_hold(costs, monkeypatch, tmp_path):
    monkeypatch.setattr(adaptive_fig4, "averaged", lambda streams, seeds, tell: costs)
    outcome = adaptive_fig4.four(0.1, silent)
    holds = [claim.holds for claim in outcome.claims]
    assert (holds[:4], holds[5:]) == ([True] * 4, [True, False, True])  # the spike depends on the seed
    assert all(claim.why for claim in outcome.claims if not claim.holds)
    assert {len(row) for row in outcome.rows} == {len(outcome.header)}
    assert [len(panel.curves) for panel in outcome.panels] == [5, 5]
    table, _ = write(outcome, tmp_path)
    header, first, *_ = table.read_text().splitlines()
    assert header == "panel,plan,time,unit,seconds in an interval of 200 ms"
    assert 0 < float(first.rpartition(",")[2]) < 1


def test_figure_5_says_which_of_its_claims_hold(traces, monkeypatch):
    monkeypatch.setattr(adaptive_fig5, "run", lambda streams, rows, plan, way: traces[way])
    outcome = adaptive_fig5.four(0.1, silent)
    assert [claim.holds for claim in outcome.claims] == [True, True, True, False]
    found = {(row[0], row[1]): row[3:6] for row in outcome.rows}
    for n in (1, 2, 3, 4):
        (search, move, total), (others, moves, _) = (found[way, n] for way in ("central", "distributed"))
        assert total == pytest.approx(search + move)
        assert (moves, others > search) == (move, True)
    assert found["central", 1] == pytest.approx(found["central", 3])


def test_the_catalog_of_the_spark_runs_is_that_of_the_experiment_with_more_values(tmp_path):
    path = tmp_path / "catalog.yaml"
    path.write_text(adaptive_fig4a_spark.catalog(30))
    read, known = load(path), adaptive.catalog(4, LOW)
    assert (read.sites, read.links, read.costs) == (known.sites, known.links, known.costs)
    for name, stream in known.streams.items():
        stats = stream.stats.model_copy(update={"distinct": {"j": 3000}})
        assert (read.streams[name].stats, read.streams[name].columns) == (stats, stream.columns)


def test_stretched_streams_match_as_often():
    usual, stretched = adaptive.rows(4, 0), adaptive.rows(4, 0, 10)
    for name, own in usual.items():
        assert len(stretched[name].times) == pytest.approx(10 * len(own.times), abs=10)
        assert stretched[name].times[-1] == pytest.approx(10 * own.times[-1], rel=0.01)
    assert len(set(stretched["s1"].batch.column("j").to_pylist())) == 1000
    # What the static plan is estimated to ship in an interval, and so in a second, is the same.
    assert adaptive_fig4a_spark.estimated(10)[5] == pytest.approx(10 * adaptive_fig4a_spark.estimated(1)[5])


@pytest.mark.long
def test_figures_of_eight_streams():
    outcome = adaptive_fig4.eight(0.1, silent)
    assert [claim.holds for claim in outcome.claims[:3]] == [True] * 3
    assert outcome.claims[-1].holds  # the results are right
    assert adaptive_fig5.eight(0.1, silent).claims[-1].holds  # finding a plan costs more than with four

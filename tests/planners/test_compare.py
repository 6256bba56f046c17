"""All planners side by side."""

import pytest

from tests.planners.examples import catalog, links, pmjoin_1, query, stream
from thalweg.errors import UserError
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners import compare as compare_module
from thalweg.planners.compare import ANY_FAMILY, compare
from thalweg.planners.search.problem import NotApplicableError
from thalweg.planners.table import NUMBER, PLANNERS, Planner, make_plan, planner


def example(**settings):
    sql, known = pmjoin_1()
    return compare([query(sql, known)], known, PlanOptions(settings=settings))


def test_every_planner_is_told_of_once():
    done = example()
    assert [p.name for p in PLANNERS] == sorted(
        [p.name for p in (*done.planners, *done.not_applicable)], key=[p.name for p in PLANNERS].index
    )
    assert (done.objective, done.unit, done.queries) == ("bytes", "bytes/s between sites", ("q",))


def test_distances_are_from_the_best_of_the_family():
    done = example()
    for family, members in done.families.items():
        if family != "any":
            assert members[0].distance_percent == 0
        assert [p.cost for p in members] == sorted(p.cost for p in members)
    by_name = {p.name: p for p in done.planners}
    assert by_name["simple"].cost == pytest.approx(100.1)
    assert by_name["optimal"].distance_percent == 0
    assert by_name["simple"].distance_percent == pytest.approx((100.1 / 54.0316 - 1) * 100)


def test_a_planner_that_does_not_apply_says_why():
    (local,) = [p for p in example().not_applicable if p.name == "local"]
    assert local.family == planner("local").family
    assert "n1, n2, n3" in local.reason


def test_the_cost_is_what_planning_alone_comes_to_for_all_queries():
    sql, known = pmjoin_1()
    queries = [query(sql, known, name) for name in ("first", "second")]
    done = compare(queries, known, PlanOptions(objective=Objective.USAGE))
    for one in done.planners:
        alone = make_plan(queries, known, PlanOptions(one.name, Objective.USAGE))
        assert one.cost == pytest.approx(alone.total)
        if one.family != ANY_FAMILY:  # which stops when its time is up
            assert one.searched == sum(q.searched for q in alone.queries)


def test_settings_go_to_those_who_take_them(monkeypatch):
    seen = {}

    def spy(name):
        def plan(problem):
            seen[name] = dict(problem.settings)
            return planner("simple").plan(problem)

        return lambda: plan

    made = (
        Planner("a", "tree", "-", "", spy("a"), {"width": ("columns", "equal")}),
        Planner("b", "tree", "-", "", spy("b"), {"width": ("columns", "equal"), "depth": NUMBER}),
    )
    monkeypatch.setattr(compare_module, "PLANNERS", made)
    example(width="equal", depth="3")
    assert seen == {"a": {"width": "equal"}, "b": {"width": "equal", "depth": "3"}}


def test_a_setting_that_nobody_takes_is_an_error_with_all_keys():
    with pytest.raises(UserError, match=r"no planner takes a setting 'height'; there are: width"):
        example(height="3")
    with pytest.raises(UserError, match="can't be 'round'"):
        example(width="round")


def test_a_setting_that_only_its_planner_can_check_is_an_error_too(monkeypatch):
    def plan(problem):
        problem.number("depth", 1)
        raise NotApplicableError("too deep")

    other = Planner("b", "tree", "-", "", lambda: plan, {"depth": NUMBER})
    monkeypatch.setattr(compare_module, "PLANNERS", (planner("simple"), other))
    with pytest.raises(UserError, match="setting 'depth' can't be 'x'"):
        example(depth="x")
    assert [p.reason for p in example(depth="1").not_applicable] == ["too deep"]


def test_a_planner_of_any_family_is_measured_by_the_best_of_all(monkeypatch):
    def hand_on(problem):
        return planner("simple").plan(problem)

    made = (planner("simple"), planner("optimal"), Planner("any-of-them", "any", "-", "", lambda: hand_on))
    monkeypatch.setattr(compare_module, "PLANNERS", made)
    done = example()
    assert list(done.families) == ["tree", "any"]
    told = done.to_json()["planners"][-1]
    assert told["distance_percent"] == done.planners[0].distance_percent > 0
    assert told["chose"] == []


def test_without_cost_there_is_no_percentage():
    known = catalog([stream(s, "n", {"k": "long"}) for s in "ab"])
    window = "[RANGE 1 SECOND]"
    asked = query(f"SELECT a.k FROM a {window}, b {window} WHERE a.k = b.k", known)
    done = compare([asked], known, PlanOptions())
    assert {p.cost for p in done.planners if p.family == "tree"} == {0.0}
    assert {p.distance_percent for p in done.planners if p.family == "tree"} == {0.0}
    assert compare_module.distance(1.0, 0.0) is None


def test_what_is_wrong_for_all_is_an_error():
    known = catalog(
        [stream("a", "n1", {"k": "long"}), stream("b", "n3", {"k": "long"})],
        sites=["n2"],
        links=links({("n1", "n2"): (1, 1, 0)}),
    )
    window = "[RANGE 1 SECOND]"
    asked = query(f"SELECT a.k FROM a {window}, b {window} WHERE a.k = b.k", known)
    with pytest.raises(UserError, match="streams at n3 could meet those at n1"):
        compare([asked], known, PlanOptions())
    with pytest.raises(UserError, match="no site 'n9'"):
        compare([asked], known, PlanOptions(deliver_to="n9"))


def test_a_planner_whose_time_is_up_says_so():
    """Twelve aliases are too many for the exact planners to be done at once."""
    streams = [stream(f"s{i}", f"n{i % 3}", {"k": "long"}, rate=10.0 + i) for i in range(12)]
    known = catalog(streams)
    windows = ", ".join(f"s{i} [ROWS 5]" for i in range(12))
    equal = " AND ".join(f"s0.k = s{i}.k" for i in range(1, 12))
    begun = []
    options = PlanOptions(limit_s=0.1)
    done = compare([query(f"SELECT s0.k FROM {windows} WHERE {equal}", known)], known, options, begun.append)
    late = {p.name for p in done.not_applicable if "not done after 0.1 seconds" in p.reason}
    assert {"optimal", "top-down", "bottom-up", "npc", "pmjoin-optimal", "linear-optimal"} <= late
    assert {"auto", "simple", "streamjoinopt"} <= {p.name for p in done.planners}
    assert begun == [p.name for p in PLANNERS]

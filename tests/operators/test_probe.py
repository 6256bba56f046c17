"""One-way joins: what they count. What they find is checked with whole plans (tests/simulate)."""

from __future__ import annotations

from tests.planners.examples import query
from tests.simulate.sites_cases import Case, catalog_of, compiled, evaluate, sql_of, table
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session, planner
from thalweg.simulate.host import SimulatedHost


def test_probes_count_the_tuples_of_the_windows_that_they_meet() -> None:
    case = Case(seed=2, windows=("RANGE 1000 MILLISECONDS",) * 2, sites=(0, 1), buckets=1, lateness_ms=0)
    known = catalog_of(case)
    asked = query(sql_of(case), known)
    session = Session(known, PlanOptions("linear-greedy", Objective.TIME, None, {}))
    deployment = session.deploy(asked, planner("linear-greedy")).deployment
    host = SimulatedHost(compiled(case, known, [(asked, deployment)]), evaluate)

    def rows(count: int) -> list[dict]:
        return [{"ts": 1000 * n, "x": n, "y": 0, "v": 0, "id": n} for n in range(count)]

    host.batch({"a": table(case, rows(3)), "b": table(case, rows(5))})
    host.end()
    host.batch({}, host.waiting)
    host.drain()
    # Each stream's tuples are put into one window, and each tuple meets all of the other window.
    assert (host.report.updated, host.report.probed) == (3 + 5, 3 * 5 + 5 * 3)

"""What plans are compiled to."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.operators.one_site import COLUMNS, compiled, ranged
from thalweg.compile.inputs import StreamInfo, TypedQuery
from thalweg.query.model import Equality, Expr, Input, Output, Query, Window, WindowKind

COMPILE = """
import hashlib
from tests.planners.examples import query
from tests.simulate.sites_cases import Case, by_planner, catalog_of, compiled, sql_of
case = Case(0, shape="chain", filtered=True)
known = catalog_of(case)
asked = query(sql_of(case), known)
made = compiled(case, known, [(asked, by_planner(PLANNER, case)(asked, known))])
print(hashlib.sha256(made.program.to_json()).hexdigest())
"""


@pytest.mark.parametrize("planner", ["optimal", "semijoin-greedy"])
def test_a_program_does_not_depend_on_the_process(planner):
    """A run that is continued compiles its plan again, in another process, and must come to the same."""
    found = {
        subprocess.run(
            [sys.executable, "-c", COMPILE.replace("PLANNER", repr(planner))],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(found) == 1
    assert found.pop().strip()


def test_a_key_is_computed_only_for_rows_that_pass_the_filters() -> None:
    number = Expr("CAST(`x`.`k` AS BIGINT)")
    inputs = (Input("x", "s", Window(WindowKind.RANGE, 10), (Expr("`x`.`id` > 0"),)), ranged("y", "t"))
    equality = Equality(number, Expr.column("y", "id"))
    query = Query("q", "", inputs, (equality,), (), (Output("x_id", Expr.column("x", "id")),))
    infos = {n: StreamInfo(n, COLUMNS, "ts", 0) for n in "st"}
    typed = TypedQuery(query, (equality,), {e.sql: pa.int64() for e in (equality.left, equality.right)})
    made = compiled(typed, infos, 1, keep_late=False)
    selected = [sql for one in made.selections if one.stream == "s" for sql, _ in one.columns]
    assert "CASE WHEN (`id` > 0) THEN CAST(`k` AS BIGINT) END" in selected

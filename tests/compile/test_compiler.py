"""A run that is continued compiles its plan again, in another process, and must come to the same."""

import os
import subprocess
import sys

import pytest

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

"""`thalweg.join` and `thalweg.sql` on a Spark Connect session, which must be the only one of its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment

from .remote import CONNECT, VARIABLE

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def on_connect(*what: object, within: float = 600) -> None:
    """Run pytest, whose tests have a Connect session."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *map(str, what)],
        cwd=ROOT,
        env={**environment(), VARIABLE: CONNECT},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_a_join_goes_on_where_it_stopped():
    on_connect(HERE / "connect_cases.py")


@pytest.mark.long
@pytest.mark.parametrize("module", ["test_api", "test_sql", "test_tables", "test_after"])
def test_all_that_works_on_a_classic_session(module):
    on_connect(HERE / f"{module}.py", "-m", "not long", within=3000)

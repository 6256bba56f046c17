"""The experiments of adaptive."""

import pytest

from thalweg.reproduce import adaptive_table3
from thalweg.reproduce.adaptive_table3 import CENTRAL, DISTRIBUTED, DOWN, PAPER, UP


@pytest.fixture(scope="module")
def table3():
    return adaptive_table3.run(1.0, lambda line: None)


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

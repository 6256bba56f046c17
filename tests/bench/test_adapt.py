"""What adapting costs and brings, on a small scale."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from thalweg.bench.adapt import MINUTE, Course, Following, Observing, following, rows


def test_a_gap_is_between_two_batches_with_results():
    course = Course()
    course.moments = [0.0, 1.0, 2.0, 4.0, 5.0]
    course.results = [3, 5, 5, 6, 6]
    assert course.gaps() == [(1, 1.0), (3, 3.0)]


def test_the_table_has_ratios_beside_their_targets():
    followed = Following(180, 2, 110, 100, 1.5, 1.0, 1.2, 50, 48.0, 9, 9)
    told = rows([Observing("one site", [100.0, 110.0, 90.0], [95.0, 97.0, 99.0])], followed)
    assert told[0] == ("rows a second with observing on to off, one site", "0.97", "at least 0.95")
    assert [row[1] for row in told[1:3]] == ["2", "1.10"]
    assert told[3][1].startswith("1.50 (1.50 s to 1.00 s")


@pytest.mark.long
def test_a_run_from_no_statistics_comes_to_ship_about_as_little_as_one_that_knows(tmp_path):
    with ProcessPoolExecutor(1, get_context("spawn")) as own:  # a run ends the session of its process
        found = own.submit(following, tmp_path / "routers", print, MINUTE + 20).result()
    assert found.results == found.results_known > 100
    assert found.changes >= 1
    assert found.bytes_ratio < 1.5  # some seconds only; the target is measured over two minutes
    assert found.moved > 0

"""What a run writes down after each batch, and what is read of it."""

from itertools import pairwise

import pytest

from thalweg.live import series
from thalweg.live.series import Follower, Histogram, Point, Series, files, points


def point(batch, at=None, **more):
    return Point(batch, float(batch if at is None else at), 0.5, {"s": 10 * batch}, **more)


def batches(found):
    return [p.batch for p in found]


def test_a_point_is_read_as_it_was_written():
    one = point(3, late={"s": {"late": 2}}, sent={"a-b": [1, 2, 3]}, durations=Histogram().plus(0.3), p50=1.5)
    assert Point.read_from(one.line()) == one
    assert Point.read_from(one.line(work=False)) == one


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"batch": 1', '{"batch": 1, "other": 2}', "null"])
def test_anything_else_is_no_point(line):
    assert Point.read_from(line) is None


def test_the_last_batches_are_kept_in_two_files(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "LINES", 10)
    made = Series(tmp_path)
    for n in range(35):
        made.add(point(n))
    recent, older, _ = files(tmp_path)
    assert batches(points(recent)) == [*range(30, 35)]
    assert batches(points(older)) == [*range(20, 30)]


def test_the_whole_run_has_fewer_points_the_longer_it_lasts(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "POINTS", 20)
    made = Series(tmp_path)
    for n in range(2_000):
        made.add(point(n))
    found = batches(points(files(tmp_path)[2]))
    assert found[0] == 0
    assert 20 <= len(found) <= 40
    gaps = [b - a for a, b in pairwise(found)]
    assert max(gaps) <= 2_000 / 20 * 1.5


def test_a_repeated_batch_counts_on_from_the_one_before(tmp_path):
    made = Series(tmp_path)
    for n in range(3):
        made.add(point(n))
    again = Series(tmp_path)
    assert again.before(2) == point(1)
    again.add(point(2, at=9.0))
    assert again.before(3).at == 9.0
    follower = Follower(files(tmp_path)[0], 100)
    assert [(p.batch, p.at) for p in follower.read()] == [(0, 0.0), (1, 1.0), (2, 9.0)]


def test_a_line_that_was_cut_off_is_skipped(tmp_path):
    made = Series(tmp_path)
    made.add(point(0))
    recent = files(tmp_path)[0]
    with recent.open("a") as file:
        file.write(point(1).line()[:20])
    again = Series(tmp_path)
    again.add(point(1))
    assert batches(points(recent)) == [0, 1]


def test_a_follower_reads_on(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "LINES", 4)
    made, recent = Series(tmp_path), files(tmp_path)[0]
    follower = Follower(recent, 3)
    assert follower.read() == []
    made.add(point(0))
    assert batches(follower.read()) == [0]
    with recent.open("a") as file:
        file.write(point(1).line()[:10])
    assert batches(follower.read()) == [0]  # the line is not whole yet
    with recent.open("a") as file:
        file.write(point(1).line()[10:])
    assert batches(follower.read()) == [0, 1]
    made._lines = 4
    made.add(point(2))  # in another file
    assert batches(follower.read()) == [2]
    for n in (3, 4, 5):
        made.add(point(n))
    assert batches(follower.read()) == [3, 4, 5]

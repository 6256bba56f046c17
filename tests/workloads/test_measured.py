"""Networks of measured round-trip times."""

import gzip

import numpy as np
import pytest

from thalweg.errors import UserError
from thalweg.workloads.measured import SHORTEST_MS, Times, read

LINES = ["7,9,12", "0,10,31", "10,0,0", "31,0,0"]


def written(folder, lines, name="times.csv"):
    path = folder / name
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["times.csv", "times.csv.gz"])
def test_times_are_read(name, tmp_path):
    found = read(written(tmp_path, LINES, name)).rtt_ms
    assert found.tolist() == [[0, 10, 31], [10, 0, SHORTEST_MS], [31, SHORTEST_MS, 0]]


def test_a_link_has_half_of_the_round_trip(tmp_path):
    links = read(written(tmp_path, LINES)).links()
    assert len(links.pairs) == 6
    assert links.default is None
    assert links.between("n0", "n2").latency_ms == 15.5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "0 lines, and the first names 0 sites"),
        (LINES[:3], "3 lines, and the first names 3 sites"),
        ([*LINES[:2], "10,zero,0", LINES[3]], "no line of 3 times"),
        ([*LINES[:2], "10,-1,0", LINES[3]], "no line of 3 times"),
        ([*LINES[:2], "10,0", LINES[3]], "no line of 3 times"),
    ],
)
def test_a_wrong_file_is_told(lines, said, tmp_path):
    with pytest.raises(UserError, match=said):
        read(written(tmp_path, lines))


def test_a_missing_or_broken_file_is_told(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        read(tmp_path / "none.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"not packed")
    with pytest.raises(UserError, match="can't be read"):
        read(broken)


def test_sites_on_the_way_between_all_others_are_found():
    place = np.arange(20.0) * 10
    times = Times(np.abs(place[:, None] - place))
    assert not times.shortcuts.any()
    times.rtt_ms[4, :], times.rtt_ms[:, 4] = 1.0, 1.0
    times.rtt_ms[4, 4] = 0.0
    assert np.flatnonzero(times.shortcuts).tolist() == [4]
    assert len(times.without(times.shortcuts).rtt_ms) == 19


def test_some_of_the_sites_are_the_same_for_a_seed():
    times = Times(np.arange(100.0).reshape(10, 10))
    assert times.some(4, 1).rtt_ms.tolist() == times.some(4, 1).rtt_ms.tolist()
    assert times.some(4, 1).rtt_ms.shape == (4, 4)
    assert times.some(11, 1) is times

"""The benchmark of splitting: its settings are what they claim, and all trees give the same results."""

from __future__ import annotations

import pytest

from thalweg.bench.split import (
    PAPER,
    Setting,
    Split,
    Stream,
    Timed,
    measure,
    random_settings,
    to_json,
    verdict,
    write,
)
from thalweg.cost.operations import prices


def test_the_settings_of_the_paper_agree_with_its_text():
    for setting in PAPER:
        assert len(setting.streams) == 6
        assert (setting.streams[0].tuples, setting.streams[0].delay_ms) == (300_000, 1.0)
        # Equation 2's 1.52 ms at the costs of table 3.
        assert sum(1e3 / s.delay_ms for s in setting.streams) == pytest.approx(2334, rel=0.05)


def test_random_settings_are_the_same_each_time():
    assert random_settings(3) == random_settings(3)


def test_the_ratio_is_to_the_better_of_the_others():
    one, binary, chosen = (Timed((0, 1, 2), 0.0, seconds) for seconds in (4.0, 2.0, 3.0))
    slow = Split("slow", 3, 1, 1, one, binary, chosen)
    assert slow.ratio == 1.5
    assert verdict([slow, Split("even", 3, 1, 1, one, binary, binary)]).startswith("1 of 2 settings")


@pytest.mark.parametrize("window", [None, 0.3])
def test_a_small_setting_is_measured(window, tmp_path):
    streams = tuple(Stream(n, 1000 / n, (0, 300)) for n in (3000, 600, 900, 300))
    done = [measure(Setting("small", streams, window), prices())]
    assert done[0].results > 0
    assert "small" in verdict(done)
    assert to_json(done)["settings"][0]["single"]["tree"] == "(0, 1, 2, 3)"
    assert [p.name for p in write(done, tmp_path)] == ["split.md", "split.json", "split.csv"]

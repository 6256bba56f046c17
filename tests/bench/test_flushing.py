"""Section 2.5 of the paper on overflow: what coordinated flushing gains in the first phase."""

from __future__ import annotations

import pytest

from thalweg.bench.flushing import measure


@pytest.mark.parametrize("streams", [3, 4])
@pytest.mark.parametrize("fraction", [0.5, 0.25])
def test_coordinated_flushing_gains_as_section_2_5_says(streams: int, fraction: float) -> None:
    counted = measure(streams, fraction)
    assert counted.random > 1000
    assert counted.ratio == pytest.approx(counted.expected, rel=0.2)


def test_of_two_streams_it_gains_nothing() -> None:
    assert measure(2, 0.5).ratio == pytest.approx(1, rel=0.2)

"""What the streams of a run are like, over its batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.adapt.observed import Observed
from thalweg.catalog.edit import updated
from thalweg.catalog.model import Stats
from thalweg.observe.sketch import Sketch

COLUMNS = {"k": "long", "v": "long"}
KNOWN = catalog([stream(name, f"n{name}", COLUMNS) for name in "ab"])
QUERY = query("SELECT a.v FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k", KNOWN)

AB = ("a", "b")


def batch(begin_s: int, n: int) -> dict[str, Any]:
    """A second of a stream, with ten keys."""
    sketch = Sketch()
    times = begin_s * 1_000_000 + np.arange(n) * 1_000_000 // n
    columns = {"k": pa.array(np.arange(n) % 10), "v": pa.array(np.arange(n))}
    sketch.update(columns, times, ["k"])
    return sketch.to_json()


def observed(*rates: tuple[int, int]) -> Observed:
    found, newest = Observed(), {}
    for second, both in enumerate(rates):
        there = {name: rate for name, rate in zip("ab", both, strict=True) if rate}
        newest |= dict.fromkeys(there, second * 1_000_000 + 999_999)
        found.add({name: batch(second, rate) for name, rate in there.items()}, newest)
    return found


def test_rates_and_selectivities_are_measured() -> None:
    now = observed(*[(100, 50)] * 10).catalog(KNOWN, [QUERY])
    assert now is not None
    assert now.streams["a"].stats.rate == pytest.approx(100, rel=0.05)
    assert now.streams["b"].stats.rate == pytest.approx(50, rel=0.05)
    assert now.streams["a"].stats.distinct["k"] == 10
    assert now.selectivity(("a", "k"), ("b", "k")) == pytest.approx(0.1, rel=0.05)


def test_a_change_is_seen_within_a_minute() -> None:
    now = observed(*[(100, 50)] * 60, *[(100, 500)] * 60).catalog(KNOWN, [QUERY])
    assert now is not None
    assert now.streams["b"].stats.rate == pytest.approx(500, rel=0.15)


def test_a_stream_that_falls_silent_is_slower() -> None:
    now = observed(*[(100, 50)] * 20, *[(100, 0)] * 60).catalog(KNOWN, [QUERY])
    assert now is not None
    rate = now.streams["b"].stats.rate
    assert rate is not None
    assert rate < 10


def test_too_little_decides_nothing() -> None:
    assert observed((10, 10)).catalog(KNOWN, [QUERY]) is None


def test_what_is_kept_is_read_back() -> None:
    found = observed(*[(100, 50)] * 5)
    again = Observed.from_json(found.to_json())
    assert again.catalog(KNOWN, [QUERY]) == found.catalog(KNOWN, [QUERY])


def test_the_traffic_of_a_link_weighs_recent_batches_more() -> None:
    found = Observed(half_life_s=10.0)
    for second in range(60):
        found.add_traffic(1.0, {AB: 1_000 if second < 30 else 3_000}, {AB: [0.5]})
    again = Observed.from_json(found.to_json()).links[AB]
    assert 2_700 < again.bytes_per_s < 3_000
    assert again.delay_s == pytest.approx(0.5)
    found.add_traffic(100.0, {}, {})
    assert found.links[AB].bytes_per_s < 100


def test_slow_streams_are_remembered_until_enough_is_known() -> None:
    found, newest = Observed(), {}
    for second in range(0, 600, 2):  # half a tuple a second each
        newest = dict.fromkeys("ab", second * 1_000_000)
        found.add({name: batch(second, 1) for name in "ab"}, newest)
    now = found.catalog(KNOWN, [QUERY])
    assert now is not None
    assert now.streams["a"].stats.rate == pytest.approx(0.5, rel=0.1)


def test_a_stream_that_falls_silent_keeps_a_rate_which_goes_down() -> None:
    """Were it forgotten, its declared rate would be taken for its rate of now."""
    found = observed(*[(100, 100)] * 10, *[(100, 0)] * 600)
    now = found.catalog(KNOWN, [QUERY])
    assert now is not None
    assert now.streams["b"].stats.rate is not None
    assert now.streams["b"].stats.rate < 1


def test_declared_rates_count_until_the_streams_are_known_as_well() -> None:
    stats = {name: Stats(rate=7.0) for name in "ab"}
    declared = updated(KNOWN, stats)
    assert observed(*[(100, 50)] * 10).catalog(declared, [QUERY]) is None
    now = observed(*[(100, 50)] * 25).catalog(declared, [QUERY])
    assert now is not None
    assert now.streams["a"].stats.rate == pytest.approx(100, rel=0.05)


def test_the_bytes_of_a_whole_tuple_stay_as_declared() -> None:
    """A run sees the columns that its queries read."""
    declared = updated(KNOWN, {"a": Stats(bytes=500.0)})
    now = observed(*[(100, 50)] * 10).catalog(declared, [QUERY])
    assert now is not None
    assert (now.streams["a"].stats.bytes, now.streams["b"].stats.bytes) == (500.0, None)
    assert now.streams["a"].stats.widths == {"k": 8.0, "v": 8.0}

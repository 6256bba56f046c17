"""Results that wait for their slide."""

from __future__ import annotations

import pytest

from tests.operators.one_site import found, hosted, join_of, push, ranged, rows
from thalweg.operators import sink


def test_a_slide_hands_results_out_when_event_time_has_passed_it() -> None:
    host = hosted(join_of((ranged("x", "s", slide=100), ranged("y", "t")), buckets=1))
    both = {"s": rows((10, "a", 1)), "t": rows((12, "a", 1))}
    push(host, both)
    assert found(host, "x", "y") == []
    push(host, {"s": rows((150, "b", 2)), "t": rows((99, "a", 2))})
    assert found(host, "x", "y") == []  # t may still bring what belongs to the first slide
    push(host, {"t": rows((101, "c", 3))})
    assert found(host, "x", "y") == [(1, 1)]


def test_results_that_wait_for_a_slide_are_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "SEGMENT_BYTES", 100)
    host = hosted(join_of((ranged("x", "s", 1000, slide=100), ranged("y", "t", 1000)), buckets=1))
    push(host, {"s": rows(*((10 * i, "a", i) for i in range(1, 21))), "t": rows((12, "a", 1))})
    assert found(host, "x", "y") == []
    push(host, {"s": rows((250, "b", 90)), "t": rows((250, "c", 91))})
    assert found(host, "x", "y") == [(i, 1) for i in range(1, 20)]  # that at 200 is of the next slide
    assert len(host.results[0]) > 3
    host.forget()
    push(host, {"s": rows((300, "b", 92)), "t": rows((300, "c", 93))})
    assert found(host, "x", "y") == [(i, 1) for i in range(1, 21)]

"""Emulated links: when files arrive. A file of `one(n)` has some 50 bytes."""

from __future__ import annotations

import pytest

from tests.exchange.logs import exchange, one
from thalweg.exchange.links import Link, links_of, links_text
from thalweg.exchange.parcel_file import Edge


def arrivals(root, link, sent_at, after=0):
    log = exchange(root, link=link)
    for n, moment in enumerate(sent_at, 1):
        log.clock = lambda moment=moment: moment
        log.publish(n, one(1))
    found = []
    for seq in range(after, len(sent_at)):
        moment = log.next_at(seq)
        assert log.ready(seq, moment) > seq
        assert log.ready(seq, moment - 1e-6) == seq
        found.append(moment)
    assert log.next_at(len(sent_at)) is None
    return found


def test_without_a_link_no_clock_is_asked(tmp_path):
    log = exchange(tmp_path, now=1e9)
    log.publish(1, one(1))
    assert log.ready(0, 0.0) == 1


def test_latency(tmp_path):
    assert arrivals(tmp_path, Link(latency_s=0.5), [10.0, 10.1, 20.0]) == [10.5, 10.6, 20.5]


def test_bandwidth_makes_files_queue(tmp_path):
    log = exchange(tmp_path / "size", now=10.0)
    size = log.publish(1, one(1)).bytes
    found = arrivals(tmp_path, Link(latency_s=1.0, bytes_per_s=size), [10.0, 10.0, 10.5, 30.0])
    assert found == pytest.approx([12.0, 13.0, 14.0, 32.0])


def test_jitter_is_always_the_same_and_keeps_the_order(tmp_path):
    link, sent_at = Link(latency_s=1.0, jitter_s=2.0), [10 + 0.1 * n for n in range(20)]
    found = arrivals(tmp_path / "x", link, sent_at)
    assert found == arrivals(tmp_path / "y", link, sent_at)
    assert found == sorted(found)
    assert all(moment + 1 <= there <= moment + 3 + 1e-9 for moment, there in zip(sent_at, found, strict=True))
    assert len(set(found)) > 3
    other = exchange(tmp_path / "x", Edge("b", "a"), link=link, now=10.0)
    other.publish(1, one(1))
    assert other.next_at(0) != found[0]


def test_nothing_arrives_during_a_cut(tmp_path):
    link = Link(latency_s=1.0, cuts=((20.0, 30.0), (10.0, 20.0), (40.0, 41.0)))
    assert arrivals(tmp_path, link, [8.0, 9.0, 15.0, 28.9, 29.0, 39.5]) == [9.0, 30.0, 30.0, 30.0, 30.0, 41.0]


def test_what_was_forgotten_does_not_change_when_the_rest_comes(tmp_path):
    link = Link(latency_s=1.0, bytes_per_s=10.0, jitter_s=1.0)
    first = arrivals(tmp_path, link, [10.0] * 5)
    log = exchange(tmp_path, link=link)
    found = []
    for seq in range(5):
        found.append(log.next_at(seq))
        log.forget(seq)
    assert found == first


@pytest.mark.parametrize(
    "fields",
    [
        {"latency_s": -1.0},
        {"jitter_s": -0.1},
        {"bytes_per_s": 0.0},
        {"latency_s": float("inf")},
        {"latency_s": float("nan")},
        {"cuts": ((2.0, 2.0),)},
        {"cuts": ((2.0, float("inf")),)},
    ],
)
def test_links_that_can_not_be(fields):
    with pytest.raises(ValueError, match=r"link|cut"):
        Link(**fields)


def test_links_as_text():
    links = {"a-b": Link(0.5, 1e6, 0.1, ((1.0, 2.0), (3.0, 4.0))), "b-a": Link()}
    assert links_of(links_text(links)) == links
    with pytest.raises(ValueError, match="links have no latency; they have bytes_per_s"):
        links_of('{"a-b": {"latency": 1}}')

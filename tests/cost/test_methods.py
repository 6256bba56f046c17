"""The six one-way join methods against semijoin's appendix B, and the lines of shipping costs."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from tests.planners.examples import catalog, links, stream
from thalweg.catalog.model import Costs
from thalweg.cost.methods import METHODS, PIECES, Side, Ways, at_source, distinct_among, least, methods
from thalweg.cost.network import Network
from thalweg.cost.price import MODELS

COSTS = Costs(probe_s=1e-6, update_s=2e-5, insert_s=3e-4, hash_s=4e-3, interval_s=0.5)
FEWER = Side(rate=10.0, width=100.0, key=8.0, distinct=20.0), Side(40.0, 60.0, 4.0, 50.0, 200.0)
MORE = Side(rate=10.0, width=100.0, key=8.0, distinct=50.0), Side(40.0, 60.0, 4.0, 20.0, 200.0)
"""A current stream with fewer, and with more, distinct keys than the stream it is joined to."""


def found(sides):
    return methods(*sides, COSTS)


def bytes_of(method):
    return {(s.carries, s.back): float(s.bytes_per_s) for s in method.shipments}


def appendix_b(one, two, costs, send):
    """Appendix B as it is printed, with what its text has lost put in; `send` is S(x)."""
    cp, cu, ci, ch, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.hash_s, costs.interval_s
    r1, r2, w2 = one.rate, two.rate, two.window
    wp1, wp2 = r1 * tau, r2 * tau
    f12, f21 = min(1, two.distinct / one.distinct), min(1, one.distinct / two.distinct)
    k2 = two.distinct * (1 - (1 - 1 / two.distinct) ** w2)
    m1 = one.distinct * (1 - (1 - 1 / one.distinct) ** wp1)
    m2 = two.distinct * (1 - (1 - 1 / two.distinct) ** wp2)
    return {
        "SP-S": r1 * cu + r1 * cp * w2 + r2 / wp2 * send(wp2 * two.width) + r2 * cu,
        "SP-D": r1 * ci + r1 / wp1 * send(wp1 * one.width) + r1 * cp * w2 + r2 * cu,
        "SM-S1": r1 * ci
        + r1 / wp1 * send(m1 * one.key)
        + r1 / wp1 * m1 * cp * w2
        + r1 / wp1 * send(wp2 * f21 * two.width)
        + r1 / wp1 * wp2 * f21 * ci
        + r2 * ci
        + r1 * cp * w2 * f21
        + r2 / wp2 * send(8),
        "SM-S2": r1 * ci
        + r1 * ch
        + r1 / wp1 * send(k2 * (1 - f12) * two.key)
        + r1 / wp1 * k2 * (1 - f12) * cp * w2
        + r1 / wp1 * send(k2 * (1 - f12) * two.width)
        + r2 * cp * k2
        + r1 * ch
        + r2 * ci
        + r2 / wp2 * m2 * (1 - f21) * ci
        + r2 / wp2 * send(m2 * (1 - f21) * two.key + wp2 * f21 * two.width)
        + r2 / wp2 * m2 * (1 - f21) * cu,
        "SM-D1": r1 * ci
        + r1 * cp * k2
        + r1 / wp1 * send(wp1 * f12 * one.width)
        + r1 * f12 * cp * w2
        + r2 * cp * k2
        + r2 * ci
        + 2 * r2 / wp2 * m2 * (1 - f21) * ci
        + r2 / wp2 * send(m2 * (1 - f21) * two.key),
        "SM-D2": r1 * ci
        + r1 / wp1 * send(m1 * one.key)
        + r1 / wp1 * m1 * cp * w2
        + r1 / wp1 * send(m1 * f12 * one.key)
        + r1 / wp1 * m1 * f12 * cp * wp1
        + r1 / wp1 * send(wp1 * f12 * one.width)
        + r1 / wp1 * wp1 * f12 * cp * w2
        + r2 * cu,
    }


@pytest.mark.parametrize("sides", [FEWER, MORE], ids=["fewer", "more"])
@pytest.mark.parametrize("name", METHODS)
def test_work_and_messages_are_appendix_b(sides, name):
    latency, bandwidth = 0.02, 1e4
    method = found(sides)[name]
    sent = sum(latency / COSTS.interval_s + s.bytes_per_s / bandwidth for s in method.shipments)
    expected = appendix_b(*sides, COSTS, lambda x: latency + x / bandwidth)[name]
    assert float(method.work_s + sent) == pytest.approx(expected, rel=1e-12)


def test_bytes_by_hand():
    # f12 = 1, f21 = 20 / 50; 5 tuples of the current stream an interval of 0.5 s, 20 of the other.
    by_name = found(FEWER)
    m1, m2 = 20 * (1 - 0.95**5), 50 * (1 - 0.98**20)
    assert bytes_of(by_name["SP-S"]) == {("tuples", True): 2400}
    assert bytes_of(by_name["SP-D"]) == {("tuples", False): 1000}
    assert bytes_of(by_name["SM-S1"]) == pytest.approx(
        {("keys", False): m1 * 8 / 0.5, ("tuples", True): 960, ("counts", True): 16}
    )
    assert bytes_of(by_name["SM-S2"]) == pytest.approx(
        {("keys", True): m2 * 0.6 * 4 / 0.5, ("requests", False): 0, ("tuples", True): 960}
    )
    assert bytes_of(by_name["SM-D1"]) == pytest.approx(
        {("keys", True): m2 * 0.6 * 4 / 0.5, ("tuples", False): 1000}
    )
    assert bytes_of(by_name["SM-D2"]) == pytest.approx(
        {("keys", False): m1 * 8 / 0.5, ("matches", True): m1 * 8 / 0.5, ("tuples", False): 1000}
    )


def test_work_by_hand():
    # 10 tuples a second probe a window of 200, 40 a second are put into it.
    by_name = found(FEWER)
    assert float(by_name["SP-S"].work_s) == pytest.approx(10 * 2e-5 + 10 * 1e-6 * 200 + 40 * 2e-5)
    assert float(by_name["SP-D"].work_s) == pytest.approx(10 * 3e-4 + 10 * 1e-6 * 200 + 40 * 2e-5)


def test_a_semijoin_to_fewer_keys_ships_that_share():
    assert bytes_of(found(MORE)["SM-D2"])["tuples", False] == pytest.approx(0.4 * 1000)
    assert bytes_of(found(MORE)["SM-D1"]) == pytest.approx({("keys", True): 0, ("tuples", False): 400})


def test_equal_keys_reduce_nothing():
    one, two = FEWER[0], Side(40.0, 60.0, 4.0, 20.0, 200.0)
    by_name = found((one, two))
    assert bytes_of(by_name["SM-S1"])["tuples", True] == bytes_of(by_name["SP-S"])["tuples", True]
    assert bytes_of(by_name["SM-S2"]) == pytest.approx(
        {("keys", True): 0, ("requests", False): 0, ("tuples", True): 2400}
    )
    assert bytes_of(by_name["SM-D1"]) == pytest.approx({("keys", True): 0, ("tuples", False): 1000})


def test_tuples_and_bytes_agree():
    width = {
        "SM-S1": {"keys": 8, "tuples": 60, "counts": 8},
        "SM-S2": {"keys": 4, "requests": 4, "tuples": 60},
    }
    width |= {"SM-D1": {"keys": 4, "tuples": 100}, "SM-D2": {"keys": 8, "matches": 8, "tuples": 100}}
    width |= {"SP-S": {"tuples": 60}, "SP-D": {"tuples": 100}}
    for name, method in found(MORE).items():
        for s in method.shipments:
            assert float(s.bytes_per_s) == pytest.approx(float(s.tuples_per_s) * width[name][s.carries])


def test_many_joins_at_once_are_as_one_by_one():
    rates = np.array([1.0, 10.0, 500.0])
    one, two = FEWER
    many = methods(Side(rates, one.width, one.key, one.distinct), two, COSTS)
    for i, rate in enumerate(rates):
        single = methods(Side(rate, one.width, one.key, one.distinct), two, COSTS)
        for name in METHODS:
            assert np.broadcast_to(many[name].work_s, 3)[i] == pytest.approx(float(single[name].work_s))
            for a, b in zip(many[name].shipments, single[name].shipments, strict=True):
                assert np.broadcast_to(a.bytes_per_s, 3)[i] == pytest.approx(float(b.bytes_per_s))


def test_distinct_values_are_never_more_than_tuples_or_values():
    for values in (1.0, 1.5, 3.0, 1e6):
        for tuples in (0.0, 1e-3, 0.5, 1.0, 7.0, 1e9):
            seen = float(distinct_among(values, tuples))
            assert 0 <= seen <= min(values, tuples) * (1 + 1e-12)


def test_every_shipment_has_a_sender_and_a_reader_at_the_other_site():
    for name, method in found(FEWER).items():
        far = {"current": False, "source": True, **{p.kind: p.far for p in PIECES[name]}}
        crossing = {(read, far[read]) for p in PIECES[name] for read in p.reads if far[read] != p.far}
        assert crossing == {(s.sender, s.back) for s in method.shipments}
        assert far["step"] is not at_source(name)
        assert set(method.work) <= far.keys()


def test_lines_are_what_the_network_charges():
    rng = np.random.default_rng(5)
    names = [f"n{i}" for i in range(8)]
    far = [(a, b) for a, b in combinations(names, 2) if rng.random() < 0.6]
    pairs = {*pairwise(names), *far}
    known = catalog(
        [stream("s", "n0", {"k": "long"})],
        names,
        links=links(
            {p: (rng.uniform(1, 200), rng.uniform(0.1, 1000), rng.uniform(0, 1)) for p in sorted(pairs)}
        ),
    )
    places = [0, 3, 4, 7]
    for model in MODELS.values():
        network = Network.of(known, model)
        ways = Ways(network, places)
        for amount in (0.0, 1.0, 3e3, 1e5, 4e6, 1e9):
            expected = network.among(places, amount)
            every = np.arange(len(places))
            sizes = np.full(len(places), amount)
            np.testing.assert_allclose(least(ways.back(every), sizes), expected, rtol=1e-9)
            np.testing.assert_allclose(least(ways.to(every), sizes), expected.T, rtol=1e-9)
            assert ways.cost(1, 2, amount) == pytest.approx(expected[1, 2], rel=1e-9)


def test_without_a_path_it_can_not_be_shipped():
    known = catalog(
        [stream("s", "n0", {"k": "long"})], ["n0", "n1", "n2"], links=links({("n0", "n1"): (1, 1, 1)})
    )
    for model in MODELS.values():
        ways = Ways(Network.of(known, model), [0, 1, 2])
        assert ways.cost(0, 2, 5.0) == float("inf")
        assert np.isfinite(ways.cost(0, 1, 5.0))

"""The one-way join methods by hand and by semijoin's appendix B, and the lines of shipping costs."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from tests.planners.examples import catalog, links, stream
from thalweg.catalog.model import Costs
from thalweg.cost.methods import (
    BITS_A_KEY,
    BLOOM_BYTES,
    Side,
    at_source,
    distinct_among,
    methods,
    stretch,
)
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.cost.ways import Ways, least
from thalweg.operators import bloom
from thalweg.operators.outlet import BLOOM_FRAME
from thalweg.plan.one_way import METHODS, PIECES

COSTS = Costs(probe_s=1e-6, update_s=2e-5, insert_s=3e-4, hash_s=4e-3, interval_s=0.5)
FEWER = Side(rate=10.0, width=100.0, key=8.0, distinct=20.0), Side(40.0, 60.0, 4.0, 50.0, 200.0)
MORE = Side(rate=10.0, width=100.0, key=8.0, distinct=50.0), Side(40.0, 60.0, 4.0, 20.0, 200.0)
"""A current stream with fewer, and with more, distinct keys than the stream it is joined to."""


def found(sides):
    return methods(*sides, COSTS)


def bytes_of(method):
    return {(s.carries, s.back): float(s.bytes_per_s) for s in method.shipments}


def amounts(one, two, costs):
    """What changes hands in an interval, or is the share of what does; worked out one by one."""
    tau, life = costs.interval_s, two.window / two.rate
    g = max(tau, life / 4)
    f12, f21 = min(1, two.distinct / one.distinct), min(1, one.distinct / two.distinct)

    def seen(side, seconds):
        return 1 - math.exp(-side.rate * seconds / side.distinct)

    a = one.rate * tau / one.distinct  # tuples of a key in a slot: a Poisson number, if there are any
    numbers = [(m, math.exp(-a) * a**m / math.factorial(m)) for m in range(1, 60)]
    spread = tau * sum((m - 1) / (m + 1) * p for m, p in numbers) / (1 - math.exp(-a))
    n, s = two.rate / two.distinct, one.rate / one.distinct
    e = math.exp(-(n + s) * life)
    q = f21 * seen(one, life + g)
    p = f12 * seen(two, life + g)
    return {
        "m1": one.distinct * seen(one, tau),
        "k2": two.distinct * seen(two, life),
        "new2": two.rate * tau * math.exp(-two.window / two.distinct),
        "wanted": f21 * seen(one, life + spread),
        "requested": f21 * (1 - (n + s) * e / (s + n * e)),
        "present": f12 * seen(two, life),
        "matched": f12 * seen(two, life + spread),
        "g": g,
        "tests": life / g + 1,
        "held1": one.distinct * seen(one, g),
        "held2": two.distinct * seen(two, life + g),
        "passed2": q + (1 - q) * (1 - (1 - 0.6185**12) ** (life / g + 1)),
        "passed1": p + (1 - p) * 0.6185**12,
    }


def appendix_b(one, two, costs, send):
    """Appendix B's terms with these amounts, and the like for filters; `send` is S(x)."""
    cp, cu, ci, ch, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.hash_s, costs.interval_s
    r1, r2, w2, a = one.rate, two.rate, two.window, amounts(one, two, costs)
    wp1, wp2 = r1 * tau, r2 * tau
    m1, k2, new2, g = a["m1"], a["k2"], a["new2"], a["g"]
    bloom1, bloom2 = (tau / g * (1.5 * a[held] + 16) for held in ("held1", "held2"))
    return {
        "SP-S": r1 * cu + r1 * cp * w2 + send(wp2 * two.width) / tau + r2 * cu,
        "SP-D": r1 * ci + send(wp1 * one.width) / tau + r1 * cp * w2 + r2 * cu,
        "SM-S1": r1 * ci
        + send(m1 * one.key) / tau
        + m1 * cp * w2 / tau
        + send(wp2 * a["wanted"] * two.width) / tau
        + r2 * a["wanted"] * ci
        + r2 * ci
        + r1 * cp * w2 * a["wanted"],
        "SM-S2": r1 * ci
        + r1 * ch
        + send(new2 * a["requested"] * two.key) / tau
        + new2 * a["requested"] * cp * w2 / tau
        + send(wp2 * a["requested"] * two.width) / tau
        + r2 * cp * k2
        + r1 * ch
        + r2 * ci
        + 2 * new2 * ci / tau
        + send(2 * new2 * two.key) / tau
        + 2 * new2 * cu / tau,
        "SM-D1": r1 * ci
        + r1 * cp * k2
        + send(wp1 * a["present"] * one.width) / tau
        + r1 * a["present"] * cp * w2
        + r2 * cp * k2
        + r2 * ci
        + 2 * 2 * new2 * ci / tau
        + send(2 * new2 * two.key) / tau,
        "SM-D2": r1 * ci
        + send(m1 * one.key) / tau
        + m1 * cp * w2 / tau
        + send(m1 * a["matched"] * one.key) / tau
        + m1 * a["matched"] * cp * wp1 / tau
        + send(wp1 * a["matched"] * one.width) / tau
        + r1 * a["matched"] * cp * w2
        + r2 * cu,
        "SB-S1": r1 * ci
        + r1 * ch
        + send(bloom1) / tau
        + r2 * a["tests"] * ch
        + send(wp2 * a["passed2"] * two.width) / tau
        + r2 * a["passed2"] * ci
        + r2 * ci
        + r1 * cp * w2 * a["passed2"],
        "SB-D1": r1 * ci
        + r1 * ch
        + send(bloom2) / tau
        + a["held2"] / g * ch
        + send(wp1 * a["passed1"] * one.width) / tau
        + r1 * a["passed1"] * cp * w2
        + r2 * ci,
    }


@pytest.mark.parametrize("sides", [FEWER, MORE], ids=["fewer", "more"])
@pytest.mark.parametrize("name", METHODS)
def test_work_and_messages_are_appendix_b_of_these_amounts(sides, name):
    latency, bandwidth = 0.02, 1e4
    method = found(sides)[name]
    sent = sum(latency / COSTS.interval_s + s.bytes_per_s / bandwidth for s in method.shipments)
    expected = appendix_b(*sides, COSTS, lambda x: latency + x / bandwidth)[name]
    assert float(method.work_s + sent) == pytest.approx(expected, rel=1e-9)


def test_bytes_by_hand():
    # Of the current stream's 20 values, each comes every 2 s; of the other's 50 each every 1.25 s, and has
    # left after 5 s without. A probe's value is in the other's domain, 40 percent of whose are in its own.
    by_name = found(FEWER)
    keys = 20 * (1 - math.exp(-0.25)) * 8 / 0.5
    # The first and the last of a key in a slot are that far apart, on average: of m, (m - 1) / (m + 1) of it.
    often = [math.exp(-0.25) * 0.25**m / math.factorial(m) for m in range(20)]
    spread = 0.5 * sum((m - 1) / (m + 1) * p for m, p in enumerate(often) if m) / (1 - often[0])
    new = 40 * math.exp(-4) * 4
    e = math.exp(-(0.8 + 0.5) * 5)
    requested = 0.4 * (1 - 1.3 * e / (0.5 + 0.8 * e))
    assert bytes_of(by_name["SP-S"]) == {("tuples", True): 2400}
    assert bytes_of(by_name["SP-D"]) == {("tuples", False): 1000}
    assert bytes_of(by_name["SM-S1"]) == pytest.approx(
        {("keys", False): keys, ("tuples", True): 960 * (1 - math.exp(-(5 + spread) / 2))}
    )
    assert bytes_of(by_name["SM-S2"]) == pytest.approx(
        {("keys", True): 2 * new, ("requests", False): new * requested, ("tuples", True): 2400 * requested}
    )
    assert bytes_of(by_name["SM-D1"]) == pytest.approx(
        {("keys", True): 2 * new, ("tuples", False): 1000 * (1 - math.exp(-4))}
    )
    matched = 1 - math.exp(-(5 + spread) / 1.25)
    assert bytes_of(by_name["SM-D2"]) == pytest.approx(
        {("keys", False): keys, ("matches", True): keys * matched, ("tuples", False): 1000 * matched}
    )
    # A filter is for 1.25 s; a tuple of the other stream is held against 5.
    q = 0.4 * (1 - math.exp(-6.25 / 2))
    others = 1 - (1 - 0.6185**12) ** 5
    assert bytes_of(by_name["SB-S1"]) == pytest.approx(
        {
            ("bloom", False): (20 * (1 - math.exp(-1.25 / 2)) * 1.5 + 16) / 1.25,
            ("tuples", True): 2400 * (q + (1 - q) * others),
        }
    )
    p = 1 - math.exp(-5)
    assert bytes_of(by_name["SB-D1"]) == pytest.approx(
        {
            ("bloom", True): (50 * p * 1.5 + 16) / 1.25,
            ("tuples", False): 1000 * (p + (1 - p) * 0.6185**12),
        }
    )


def test_work_by_hand():
    # 10 tuples a second probe a window of 200, 40 a second are put into it.
    by_name = found(FEWER)
    assert float(by_name["SP-S"].work_s) == pytest.approx(10 * 2e-5 + 10 * 1e-6 * 200 + 40 * 2e-5)
    assert float(by_name["SP-D"].work_s) == pytest.approx(10 * 3e-4 + 10 * 1e-6 * 200 + 40 * 2e-5)


def test_a_semijoin_to_fewer_keys_ships_that_share():
    # A window of 200 tuples has all of 20 values: few tuples that come or leave change which it has.
    assert bytes_of(found(MORE)["SM-D2"])["tuples", False] == pytest.approx(400, rel=1e-3)
    assert bytes_of(found(MORE)["SM-D1"]) == pytest.approx(
        {("keys", True): 2 * 40 * math.exp(-10) * 4, ("tuples", False): 400}, rel=1e-3
    )


def test_a_sparse_window_reduces_even_with_equal_keys():
    one, two = Side(10.0, 100.0, 8.0, 1000.0), Side(40.0, 60.0, 4.0, 1000.0, 200.0)
    by_name = found((one, two))
    assert bytes_of(by_name["SM-D1"])["tuples", False] == pytest.approx(1000 * (1 - math.exp(-0.2)))
    assert bytes_of(by_name["SM-S1"])["tuples", True] == pytest.approx(2400 * (1 - math.exp(-0.05)), rel=1e-3)


def test_tuples_and_bytes_agree():
    width = {"SM-S1": {"keys": 8, "tuples": 60}, "SM-S2": {"keys": 4, "requests": 4, "tuples": 60}}
    width |= {"SM-D1": {"keys": 4, "tuples": 100}, "SM-D2": {"keys": 8, "matches": 8, "tuples": 100}}
    width |= {"SP-S": {"tuples": 60}, "SP-D": {"tuples": 100}}
    width |= {"SB-S1": {"tuples": 60}, "SB-D1": {"tuples": 100}}
    for name, method in found(MORE).items():
        for s in method.shipments:
            if s.carries == "bloom":
                assert float(s.tuples_per_s) == pytest.approx(1 / float(method.interval_s))
            else:
                assert float(s.bytes_per_s) == pytest.approx(float(s.tuples_per_s) * width[name][s.carries])


def test_slots_are_the_interval_and_of_filters_a_quarter_of_the_window():
    assert {name: float(m.interval_s) for name, m in found(FEWER).items()} == {
        name: 1.25 if name.startswith("SB") else 0.5 for name in METHODS
    }
    for life in (0.0, 1.0, math.inf):
        assert stretch(0.5, life) == 0.5


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1.0, 1e12])
@pytest.mark.parametrize("window", [0.0, 1e-9, 200.0, 1e12, math.inf])
@pytest.mark.parametrize("distinct", [1.0, 50.0, 1e15, math.inf])
def test_whatever_is_declared_the_amounts_are_sensible(rate, window, distinct):
    for one in (0.0, 1e-6, 10.0, 1e9):
        for sides in (
            (Side(one, 100.0, 8.0, 20.0), Side(rate, 60.0, 4.0, distinct, window)),
            (Side(one, 100.0, 8.0, distinct), Side(rate, 60.0, 4.0, 20.0, window)),
            (
                Side(one, 100.0, 8.0, 20.0, 0.0, one / 2, 0.3, 2.0),
                Side(rate, 60.0, 4.0, distinct, window),
            ),
        ):
            for method in found(sides).values():
                assert 0 <= method.work_s < math.inf
                for s in method.shipments:
                    most = rate if s.sender == "source" else one
                    assert 0 <= s.bytes_per_s < math.inf
                    assert 0 <= s.tuples_per_s < math.inf
                    if s.carries == "tuples":
                        assert s.tuples_per_s <= (rate if s.back else most) * (1 + 1e-9)


def test_interrupted_keys_are_seen_less_often_the_longer_one_looks():
    """Of results, a key comes in bursts: as many in all, but over a longer time fewer different ones."""
    sparse = Side(10.0, 100.0, 8.0, 20.0, 0.0, 10.0, 0.2, 0.1)
    alone, bursts = found(FEWER), found((sparse, FEWER[1]))
    assert bytes_of(bursts["SM-D1"]) == bytes_of(alone["SM-D1"])
    for name, what in (("SM-S1", "keys"), ("SM-S1", "tuples"), ("SM-S2", "requests"), ("SB-S1", "bloom")):
        less, more = ({s.carries: float(s.bytes_per_s) for s in m[name].shipments} for m in (bursts, alone))
        assert less[what] < more[what]
    # A value that can hardly come when it can not, and at once when it can, is seen when it can.
    on_off = Side(1e6, 100.0, 8.0, 20.0, 0.0, 1e6, 0.2, 1e-9)
    assert bytes_of(found((on_off, FEWER[1]))["SM-S1"])["tuples", True] == pytest.approx(0.2 * 960, rel=1e-3)


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


def test_filters_are_estimated_as_they_are_made():
    assert (BITS_A_KEY, BLOOM_BYTES) == (bloom.BITS_A_KEY, BLOOM_FRAME)

"""Paths: the cheapest in each model's weight, on small networks and on large ones alike."""

import random

import networkx as nx
import numpy as np
import pytest

from tests.planners.examples import catalog, links, stream
from thalweg.catalog.model import Costs, Link, Links
from thalweg.cost import network as module
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.errors import UserError


def line(objective, **more):
    """n0 - n1 - n2, and a slow way straight from n0 to n2."""
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=links({("n0", "n1"): (10, 8, 1), ("n1", "n2"): (20, 4, 2), ("n0", "n2"): (50, 1, 2.5)}),
        costs=Costs(interval_s=0.5),
        **more,
    )
    return Network.of(known, MODELS[objective])


@pytest.mark.parametrize(
    ("objective", "cost"),
    [
        ("bytes", 1000),  # once, however many links
        ("usage", 1000 * 0.030),
        ("dollars", 1000 * 3600 / 1e9 * 2.5),
        ("time", (0.010 + 0.020) / 0.5 + 1000 / 1e6 + 1000 / 0.5e6),
    ],
)
def test_the_cheapest_path_in_each_model(objective, cost):
    assert line(objective).cost(0, 2, 1000.0) == pytest.approx(cost)


def test_in_the_time_model_the_path_depends_on_the_amount():
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=links({("n0", "n1"): (40, 80, 0), ("n1", "n2"): (40, 80, 0), ("n0", "n2"): (10, 1, 0)}),
        costs=Costs(interval_s=1),
    )
    net = Network.of(known, MODELS["time"])
    assert net.cost(0, 2, 1.0) == pytest.approx(0.010 + 8e-6)  # straight, over little bandwidth
    assert net.cost(0, 2, 1e6) == pytest.approx(0.080 + 2 * 0.1)  # round, over much


def test_a_default_connects_all_that_is_not_named():
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=Links(
            default=Link(latency_ms=25),
            pairs={("n0", "n1"): Link(latency_ms=5), ("n1", "n2"): Link(latency_ms=5)},
        ),
    )
    net = Network.of(known, MODELS["usage"])
    assert net.cost(0, 2, 1.0) == pytest.approx(0.010)  # by way of n1
    assert net.cost(2, 0, 1.0) == pytest.approx(0.025)  # the pairs are one way


def random_network(seed, n, objective, degree=3):
    random_ = random.Random(seed)
    pairs = {}
    for i in range(1, n):
        pairs[f"n{random_.randrange(i)}", f"n{i}"] = (
            random_.randint(0, 9),
            random_.choice([1, 8, 64]),
            random_.random(),
        )
    for _ in range(n * (degree - 2) // 2):
        a, b = random_.sample(range(n), 2)
        pairs[f"n{a}", f"n{b}"] = (random_.randint(0, 9), random_.choice([1, 8, 64]), random_.random())
    known = catalog([stream("s", "n0", {"x": "long"})], sites=[f"n{i}" for i in range(n)], links=links(pairs))
    return known, Network.of(known, MODELS[objective])


@pytest.mark.parametrize("objective", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_small_and_large_networks_agree_with_networkx(objective, seed, monkeypatch):
    known, net = random_network(seed, 12, objective)
    graph = nx.DiGraph()
    for (a, b), link in known.links.pairs.items():
        fixed, per_byte = MODELS[objective].link(link, known.costs)
        graph.add_edge(net.number[a], net.number[b], weight=fixed + 700 * per_byte)
    expected = np.full((12, 12), np.inf)
    for a, costs in nx.all_pairs_dijkstra_path_length(graph):
        for b, cost in costs.items():
            expected[a, b] = cost if objective != "bytes" else 700.0 * (a != b)
    random_ = np.random.default_rng(seed)
    available = np.where(random_.random(12) < 0.4, random_.random(12), np.inf)
    available[3] = 0.5
    wanted = (available[:, None] + expected).min(axis=0)
    for limits in (["FEW"], ["SMALL", "TINY"], []):  # as a small network; by SciPy; as a large one
        np.testing.assert_allclose([net.from_site(i, 700.0) for i in range(12)], expected, rtol=1e-9)
        np.testing.assert_allclose(
            np.array([net.to_site(i, 700.0) for i in range(12)]).T, expected, rtol=1e-9
        )
        found, origin = net.spread(available, 700.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        np.testing.assert_allclose(available[origin] + expected[origin, np.arange(12)], wanted, rtol=1e-9)
        for limit in limits:
            monkeypatch.setattr(module, limit, 2)
        net = Network.of(known, MODELS[objective])


def test_one_way_links():
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=Links(default=None, pairs={("n0", "n1"): Link(), ("n2", "n1"): Link()}),
    )
    for objective in MODELS:
        net = Network.of(known, MODELS[objective])
        assert np.isinf(net.cost(0, 2, 1.0))
        assert np.isfinite(net.cost(0, 1, 1.0))
        found, origin = net.spread(np.array([0.0, np.inf, np.inf]), 2.0)
        assert (found[0], origin[1]) == (0, 0)
        assert np.isinf(found[2])


def test_no_path_is_an_error_that_names_the_sites():
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=Links(default=None, pairs={("n0", "n1"): Link(), ("n1", "n0"): Link()}),
    )
    net = Network.of(known, MODELS["usage"])
    net.check_paths(["n0", "n1"], None)
    with pytest.raises(UserError, match="no path from the site n0 to n2"):
        net.check_paths(["n0"], "n2")
    with pytest.raises(UserError, match="streams at n2 could meet those at n0"):
        net.check_paths(["n0", "n2"], None)


def test_streams_meet_where_links_lead_one_way():
    """n1 and n2 reach n0, and nothing else is reached by both."""
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=("n0", "n1", "n2"),
        links=Links(default=None, pairs={("n1", "n0"): Link(), ("n2", "n0"): Link()}),
    )
    for objective in MODELS:
        net = Network.of(known, MODELS[objective])
        net.check_paths(["n1", "n2"], None)
        with pytest.raises(UserError, match="no path from the site n2 to n1"):
            net.check_paths(["n1", "n2"], "n1")


def test_a_long_chain_of_one_way_links():
    pairs = {(f"n{i}", f"n{i + 1}"): Link() for i in range(1500)}
    known = catalog(
        [stream("s", "n0", {"x": "long"})],
        sites=[f"n{i}" for i in range(1501)],
        links=Links(default=None, pairs=pairs),
    )
    assert Network.of(known, MODELS["bytes"]).cost(0, 1500, 7.0) == 7


def test_a_network_that_is_too_large_is_refused_at_once():
    known = catalog([stream("s", "n0", {"x": "long"})], sites=[f"n{i}" for i in range(10_000)])
    with pytest.raises(UserError, match=r"c\.yaml: 10,000 sites with a link between any two have 99,990,000"):
        Network.of(known, MODELS["bytes"])

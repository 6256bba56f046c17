"""Workloads: values, streams, queries and networks are as the papers say, and the same for a seed."""

from collections import Counter

import numpy as np
import pytest

from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.workloads import enterprise, queries, streams, synthetic, transit_stub, values


@pytest.mark.parametrize(
    "shares",
    [
        values.uniform(100),
        values.normal(100, 0.1),
        *(values.zipf(100, skew) for skew in values.ZIPF),
        *(values.self_similar(100, h) for h in values.SELF_SIMILAR),
    ],
)
def test_shares_are_all_there_is(shares):
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()


def test_distributions_have_their_shapes():
    normal = values.normal(1001, 0.1)
    assert normal.argmax() == 500
    assert normal[400:601].sum() == pytest.approx(0.683, abs=0.01)
    zipf = values.zipf(50, 1.5)
    assert zipf[0] / zipf[3] == pytest.approx(8)
    similar = values.self_similar(1000, 0.2)
    assert similar[:40].sum() == pytest.approx(0.64)  # the first fifth of the first fifth


def test_same_streams_are_zipf_and_different_ones_are_not_alike():
    rng = np.random.default_rng(1)
    same = values.distributions(8, 1000, rng, sites=values.SAME)
    assert (np.diff(same, axis=1) <= 0).all()
    different = values.distributions(8, 1000, rng)
    assert np.abs(same - same.mean(axis=0)).sum() < np.abs(different - different.mean(axis=0)).sum()


def test_a_random_hot_spot_moves_the_values_of_all_streams_alike():
    made = [
        values.distributions(4, 200, np.random.default_rng(3), sites=values.SAME, hot_spot=hot)
        for hot in values.HOT_SPOTS
    ]
    contiguous, spread = made
    assert [sorted(row) for row in contiguous] == [sorted(row) for row in spread]
    assert len({tuple(np.argsort(-row)) for row in spread}) == 1
    assert not np.array_equal(contiguous, spread)


def test_drawn_values_follow_the_shares():
    shares = values.zipf(4, 1.0)
    found = Counter(values.drawn(shares, 40_000, np.random.default_rng(2)).tolist())
    assert [found[v] / 40_000 for v in (1, 2, 3, 4)] == pytest.approx(shares.tolist(), abs=0.01)


def test_windows_follow_the_rates():
    rate, rng = np.array([300.0, 10.0, 50.0]), np.random.default_rng(1)
    low, high = (streams.windows(rate, rng, way) for way in streams.SELECTIVITIES)
    assert np.argsort(low).tolist() == np.argsort(rate).tolist() == np.argsort(-high).tolist()
    assert min(low.min(), high.min()) >= 10 and max(low.max(), high.max()) <= 100


def test_a_problem_of_arrays_has_the_rates_of_equations_2_and_3():
    shares = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    made = streams.on_one_attribute(np.array([4.0, 6.0]), np.array([10.0, 20.0]), (0, 1), shares)
    rates = made.problem().rates
    agree = 0.5 * 0.2 + 0.5 * 0.3
    assert rates.flow(3).rate == pytest.approx(agree * (4 * 120 + 6 * 40))
    assert rates.flow(3).window == pytest.approx(agree * 40 * 120)
    assert rates.flow(3).width == 1


@pytest.mark.parametrize("attributes", [3, 5, 7])
def test_queries_on_several_attributes_hang_together(attributes):
    made = streams.on_several(attributes, 20, 4, np.random.default_rng(attributes), rates=(1.0, 2.0))
    assert len(made.attributes) == attributes
    assert all(2 <= len(group) <= 3 for group, _ in made.attributes)
    problem = made.problem()
    assert len(problem.rates.classes) == attributes
    reached, waiting = set(), [0]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += [j for j in range(len(problem.at)) if problem.rates.joinable(1 << one, 1 << j)]
    assert reached == set(range(len(problem.at)))


def test_join_graphs():
    sizes = {graph: len(queries.pairs(graph, 6)) for graph in queries.GRAPHS}
    assert sizes == {queries.STAR: 5, queries.CHAIN: 5, queries.CYCLE: 6, queries.FULL: 15}


@pytest.mark.parametrize("nodes", [32, 128, 510])
def test_stub_domains_hang_on_four_transit_nodes(nodes):
    links = transit_stub.links(nodes, 1)
    assert links == transit_stub.links(nodes, 1) != transit_stub.links(nodes, 2)
    number = lambda site: int(site[1:])  # noqa: E731
    ends = {tuple(sorted((number(a), number(b)))) for a, b in links.pairs}

    def domain(node):
        return -1 if node < 4 else (node - 4) % 16

    between = Counter(tuple(sorted((domain(a), domain(b)))) for a, b in ends if domain(a) != domain(b))
    assert between == {(-1, stub): 1 for stub in range(16)}
    for (a, b), link in links.pairs.items():
        least, most = (
            transit_stub.ACROSS
            if max(number(a), number(b)) < 4
            else transit_stub.WITHIN
            if domain(number(a)) == domain(number(b))
            else transit_stub.UP
        )
        assert least <= link.latency_ms <= most


def test_all_nodes_are_connected():
    made = synthetic.workload(128, transit_stub.links(128, 3), 3, queries=5)
    assert np.isfinite(Network.of(made.catalog, MODELS["usage"]).matrix(1.0)).all()


def test_the_synthetic_workload_has_two_to_five_joins_a_query():
    made = synthetic.workload(32, transit_stub.links(32, 1), 1, queries=200)
    assert {len(q.equalities) for q in made.queries} == {2, 3, 4, 5}
    assert {len(q.inputs) - len(q.equalities) for q in made.queries} == {1}
    assert len(set(made.sinks)) > 20
    again = synthetic.workload(32, transit_stub.links(32, 1), 1, queries=200)
    assert [q.aliases for q in again.queries] == [q.aliases for q in made.queries]


def test_the_enterprise_workload_has_its_shares_and_figure_5s_rates():
    made = enterprise.workload(64, transit_stub.links(64, 1), 1)
    kinds = Counter(enterprise.kind_of(q) for q in made.queries)
    assert kinds == {"gate": 240, "terminal": 45, "monitoring": 15}
    assert len(made.sinks) == 300
    rates = {name: stream.stats.rate for name, stream in made.catalog.streams.items()}
    assert rates == pytest.approx(
        {"flights": 5, "checkins": 4, "baggage": 500 / 60, "weather": 1.5, "sales": 70 / 60}
    )

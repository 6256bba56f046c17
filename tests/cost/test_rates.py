"""Rates and window contents of sets of streams, by hand and against one join after another."""

import random
from itertools import pairwise, permutations

import pytest

from tests.planners.examples import catalog, pmjoin_1, pmjoin_2, query, stream
from thalweg.catalog.model import JoinSelectivity
from thalweg.cost.keys import KeyClass, Selection
from thalweg.cost.masks import mask_of
from thalweg.cost.rates import Rates
from thalweg.cost.stats import Certainty, Statistics, Stats

W = "[RANGE 10 SECONDS]"


def rates(sql, known, **options):
    return Rates.of(query(sql, known), Statistics(known), **options)


def test_table_1_of_pmjoin():
    known = rates(*pmjoin_1())
    table = {(0,): 100.2, (1,): 50.07, (2,): 50.03, (0, 1): 9.003, (0, 2): 7.001, (1, 2): 2.0008}
    for streams, rate in table.items():
        assert known.flow(mask_of(streams)).rate == pytest.approx(rate)
    a = known.part(0, Selection(("a",), 0.0))
    assert a.flow(0b011).rate == pytest.approx(0.003)
    assert a.flow(0b101).rate == pytest.approx(5)


def test_table_2_of_pmjoin():
    known = rates(*pmjoin_2(), equal_width=True)
    assert (known.flow(0b00011).rate, known.flow(0b01100).rate) == (pytest.approx(70), pytest.approx(15))
    joined = known.flow(0b01101)
    assert (joined.rate, joined.window) == (pytest.approx(9), pytest.approx(30))


def one_class(distinct, joins=()):
    names = [f"s{i}" for i in range(len(distinct))]
    known = catalog(
        [
            stream(n, "n1", {"x": "long"}, rate=10, bytes=1, distinct={"x": d})
            for n, d in zip(names, distinct, strict=True)
        ],
        joins=joins,
    )
    equal = " AND ".join(f"{a}.x = {b}.x" for a, b in pairwise(names))
    return rates(f"SELECT s0.x FROM {', '.join(f'{n} {W}' for n in names)} WHERE {equal}", known)


def test_implied_equalities_count_once():
    known = one_class([10, 100, 1000])
    assert known.agree(0b101) == pytest.approx(1 / 1000)  # s0 = s2 is nowhere written
    assert known.agree(0b111) == pytest.approx(1 / (100 * 1000))


@pytest.mark.parametrize(
    "declared", [[], [("s0.x", "s1.x", 0.004)], [("s0.x", "s1.x", 0.004), ("s1.x", "s2.x", 0.001)]]
)
def test_any_order_of_joins_gives_the_same(declared):
    """Eqs. 2 and 3 applied to one join after another."""
    known = one_class([20, 300, 40], declared)
    for order in permutations(range(3)):
        rate, window, mask = known.rate[order[0]], known.window[order[0]], 1 << order[0]
        for i in order[1:]:
            f = known.agree(mask | 1 << i) / known.agree(mask)
            rate, window = f * (rate * known.window[i] + known.rate[i] * window), f * window * known.window[i]
            mask |= 1 << i
        assert rate == pytest.approx(known.flow(0b111).rate)
        assert window == pytest.approx(known.flow(0b111).window)


def test_a_declared_pair_stands_before_an_estimate():
    """pmjoin's example 2 with all streams on one attribute: what is implied is not multiplied in."""
    known = one_class([1000] * 5, [("s0.x", "s1.x", 0.01), ("s2.x", "s3.x", 0.001), ("s0.x", "s2.x", 0.004),
                                   ("s0.x", "s3.x", 0.004), ("s0.x", "s4.x", 0.01)])  # fmt: skip
    assert known.selectivity(0b00001, 0b01100) == pytest.approx(0.004)
    assert known.selectivity(0b01101, 0b10000) == pytest.approx(0.01)
    assert known.selectivity(0b11101, 0b00010) == pytest.approx(0.01)


def test_parts_add_up_to_the_whole():
    random_ = random.Random(5)
    by_value = [{v: random_.uniform(0, 10) for v in range(12)} for _ in range(3)]
    known = catalog(
        [stream(f"s{i}", "n1", {"x": "long"}, bytes=1, rates={"x": r}) for i, r in enumerate(by_value)]
    )
    whole = rates(f"SELECT s0.x FROM s0 {W}, s1 {W}, s2 {W} WHERE s0.x = s1.x AND s1.x = s2.x", known)
    values = whole.classes[0].values
    parts = [whole.part(0, Selection(tuple(p), 0.0)) for p in (values[:3], values[3:4], values[4:])]
    for mask in range(1, 8):
        assert sum(p.flow(mask).rate for p in parts) == pytest.approx(whole.flow(mask).rate)


def test_unnamed_values_spread_evenly():
    known = catalog(
        [
            stream(
                "s0", "n1", {"x": "string"}, rate=100, bytes=1, distinct={"x": 11}, rates={"x": {"hot": 50}}
            ),
            stream("s1", "n1", {"x": "string"}, rate=10, bytes=1, distinct={"x": 11}),
        ]
    )
    found = rates(f"SELECT s0.x FROM s0 {W}, s1 {W} WHERE s0.x = s1.x", known)
    assert found.agree(0b11) == pytest.approx(0.5 / 11 + 0.5 * (10 / 11) / 10)
    halves = [found.part(0, Selection(v, 0.5)) for v in (("hot",), ())]
    assert sum(h.flow(0b11).rate for h in halves) == pytest.approx(found.flow(0b11).rate)


def test_filters_on_the_key_change_its_spread():
    sql, known = pmjoin_1()
    found = rates(sql + " AND s1.dest = 'a'", known)
    assert found.flow(0b001).rate == pytest.approx(0.1)
    assert found.flow(0b011).rate == pytest.approx(0.003)
    both = rates(sql + " AND s1.dest IN ('a', 'b')", known)
    assert both.flow(0b011).rate == pytest.approx(5.003)


def test_windows_of_rows_and_empty_windows():
    known = catalog(
        [stream(s, "n1", {"x": "long"}, rate=10, bytes=1, distinct={"x": 100}) for s in ("s0", "s1")]
    )
    rows = rates(f"SELECT s0.x FROM s0 [ROWS 50], s1 {W} WHERE s0.x = s1.x", known)
    assert rows.flow(0b11).rate == pytest.approx((10 * 100 + 10 * 50) / 100)
    none = rates(f"SELECT s0.x FROM s0 [RANGE 0 SECONDS], s1 {W} WHERE s0.x = s1.x", known)
    assert none.flow(0b11).rate == pytest.approx(10 * 100 / 100)


def test_a_thousand_streams_do_not_vanish():
    known = one_class([100.0] * 400)
    assert known.flow(known.all).window == pytest.approx(100)


def test_conditions_are_applied_where_they_can_be_decided():
    known = catalog(
        [
            stream(s, "n1", {"x": "long", "v": "long"}, rate=10, distinct={"x": 100})
            for s in ("s0", "s1", "s2")
        ]
    )
    sql = f"SELECT s0.x FROM s0 {W}, s1 {W}, s2 {W} WHERE s0.x = s1.x AND s1.x = s2.x AND s0.v < s1.v"
    found = rates(sql, known)
    assert found.agree(0b011) == pytest.approx(0.01 / 3)
    assert found.agree(0b110) == pytest.approx(0.01)
    assert "`s0`.`v` < `s1`.`v` passes 1/3" in found.statistics.assumed
    assert found.width(0b011) == 8 + 8  # s0.x comes out, s1.x is still compared, v is no longer needed
    assert found.width(0b101) == 8 + 8 + 8  # s0.v and s0.x, and s2.x


def test_rates_by_value_that_exceed_the_rate_are_shares_of_it():
    known = catalog([stream("s0", "n1", {"x": "long"}, rate=100, rates={"x": {1: 300, 2: 100}})])
    statistics = Statistics(known)
    spread = statistics.spread("s0", "x")
    assert (spread.of(1.0), spread.rest) == (0.75, 0)
    assert list(statistics.assumed) == ["streams.s0.stats.rates.x (400 in all) are shares of 100"]


def test_what_is_known_says_how_surely():
    known = catalog([stream("s0", "n1", {"x": "long", "name": "string"}, rate=10, distinct={"x": 5})])
    measured = Statistics(known, {"s0": Stats(rate=12, widths={"name": 20})})
    assert (measured.rate("s0").value, measured.rate("s0").certainty) == (12, Certainty.MEASURED)
    assert measured.distinct("s0", "x").certainty is Certainty.DECLARED
    assert measured.width("s0", "name").value == 20
    assert measured.distinct("s0", "name").certainty is Certainty.ASSUMED
    assert list(measured.assumed) == ["streams.s0.stats.distinct.name = 1000"]


def test_a_selectivity_declared_for_other_streams_changes_nothing():
    """Not even the last bit: a node of a distributed update does not know of it."""
    rng = random.Random(1)
    for _ in range(50):
        distinct = [float(rng.randint(1, 10_000)) for _ in range(5)]
        plain = KeyClass.of(range(5), distinct, [None] * 5, {})
        declared = KeyClass.of(range(5), distinct, [None] * 5, {(3, 4): 0.01})
        for members in (frozenset((0, 1, 2)), frozenset((0, 1, 2, 3))):
            assert declared.log_agree(members) == plain.log_agree(members)
        assert declared.agree(frozenset((3, 4))) == pytest.approx(0.01)


def test_a_measured_value_says_from_how_many_tuples():
    known = catalog([stream("s0", "n1", {"x": "long"}, rate=10, distinct={"x": 5})])
    measured = Statistics(known, {"s0": Stats(rate=12)}, tuples={"s0": 2400})
    assert str(measured.rate("s0")) == "12, measured from 2,400 tuples"
    assert str(measured.distinct("s0", "x")) == "5, declared"


def test_a_measured_selectivity_stands_before_a_declared_one():
    known = catalog(
        [stream(s, "n1", {"x": "long"}, rate=10) for s in ("s0", "s1")],
        joins=[("s0.x", "s1.x", 0.5)],
    )
    measured = (JoinSelectivity(left=("s1", "x"), right=("s0", "x"), selectivity=0.25),)
    sql = f"SELECT s0.x FROM s0 {W}, s1 {W} WHERE s0.x = s1.x"
    found = Rates.of(query(sql, known), Statistics(known, measured_joins=measured))
    assert found.agree(0b11) == pytest.approx(0.25)
    assert rates(sql, known).agree(0b11) == pytest.approx(0.5)


def test_measured_distinct_values_make_a_filter_known():
    known = catalog([stream(s, "n1", {"x": "long"}, rate=10) for s in ("s0", "s1")])
    sql = f"SELECT s0.x FROM s0 {W}, s1 {W} WHERE s0.x = s1.x AND s0.x IN (1, 2)"
    found = Rates.of(query(sql, known), Statistics(known, {"s0": Stats(distinct={"x": 20})}))
    assert found.rate[0] == pytest.approx(10 * 2 / 20)


def test_pairs_of_streams_with_named_values_do_not_change_how_three_meet():
    """Selectivities that follow from the named values say nothing new, whatever is joined."""
    by_value = [{1: 90, 2: 9, 3: 1}, {1: 1, 2: 90, 3: 9}, {1: 9, 2: 1, 3: 90}]
    streams = [stream(f"s{i}", "n1", {"x": "long"}, rates={"x": r}) for i, r in enumerate(by_value)]
    sql = f"SELECT s0.x FROM s0 {W}, s1 {W}, s2 {W} WHERE s0.x = s1.x AND s1.x = s2.x"
    plain = rates(sql, catalog(streams))
    pairs = ((0, 1), (1, 2), (0, 2))
    joins = [(f"s{i}.x", f"s{j}.x", plain.agree(1 << i | 1 << j)) for i, j in pairs]
    known = rates(sql, catalog(streams, joins=joins))
    for mask in range(1, 8):
        assert known.agree(mask) == pytest.approx(plain.agree(mask))


def test_named_values_that_never_meet_in_threes_are_no_trouble():
    by_value = [{1: 90, 2: 10}, {2: 50, 3: 50}, {1: 50, 3: 50}]
    streams = [stream(f"s{i}", "n1", {"x": "long"}, rates={"x": r}) for i, r in enumerate(by_value)]
    sql = f"SELECT s0.x FROM s0 {W}, s1 {W}, s2 {W} WHERE s0.x = s1.x AND s1.x = s2.x"
    known = rates(sql, catalog(streams, joins=[("s0.x", "s1.x", 0.05), ("s1.x", "s2.x", 0.0)]))
    assert known.agree(0b011) == pytest.approx(0.05)
    assert 0 <= known.agree(0b111) <= 0.05

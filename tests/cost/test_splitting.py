"""What trees of joins do is counted as the kernel counts it; MJoin's own formulas; prices that are kept."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cost.mjoin import output_rate, results_in_second, store_or_discard, work_a_second
from thalweg.cost.operations import kept_at, prices
from thalweg.cost.splitting import NAMES, Inputs, Moment, Operations, Work, joins_in, mask_in
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.tree import JoinTree


def inputs_of(rates, keys, span=1.0, batch=0.25):
    def agree(mask):
        inside = [k for i, k in enumerate(keys) if mask >> i & 1]
        return min(inside) / math.prod(inside)

    n = len(rates)
    content = tuple(r * span for r in rates)
    return Inputs((Moment(tuple(rates), content),), agree, (span,) * n, (1.0,) * n, batch)


@pytest.mark.parametrize("shape", [(0, 1, 2, 3), ((0, 1), (2, 3)), (((0, 1), 2), 3), ((0, 1, 2), 3)])
def test_the_kernel_does_what_is_counted(shape):
    """Hashes, comparisons and results of a second in steady state, of the kernel and as predicted."""
    rates, keys = (4000.0, 2000.0, 3000.0, 500.0), (1500, 1000, 1500, 1200)
    rng = np.random.default_rng(3)
    tree = JoinTree([InputSpec(str(i), (("v", pa.int64()),), 1_000_000) for i in range(4)], shape)
    seconds, deltas = 4, []
    for rate, count in zip(rates, keys, strict=True):
        start = np.sort(rng.integers(0, seconds * 1_000_000, int(rate * seconds)))
        deltas.append(Delta(rng.integers(0, count, len(start)), start, None, (pa.array(start),)))
    counted = []
    for hi in range(250_000, seconds * 1_000_000 + 1, 250_000):
        cuts = [np.searchsorted(d.start, [hi - 250_000, hi]) for d in deltas]
        batch = [d.slice(int(a), int(b)) for d, (a, b) in zip(deltas, cuts, strict=True)]
        for _ in tree.push(batch):
            pass
        tree.expire([hi] * 4)
        counted.append(tree.counters)
    before, after = counted[3], counted[-1]  # from when the windows are full
    work = Work(inputs_of(rates, keys))
    predicted = work.tree(shape)
    second = seconds - 1
    assert (after.hashes - before.hashes) / second == pytest.approx(predicted.hash, rel=0.15)
    assert (after.comparisons - before.comparisons) / second == pytest.approx(predicted.compare, rel=0.3)
    assert (after.results - before.results) / second == pytest.approx(work.flow(0b1111)[0].rate, rel=0.15)


def test_an_intermediate_result_is_counted_on_its_way():
    work = Work(inputs_of((100.0, 100.0, 100.0), (50, 50, 50)))
    one, tree = work.tree((0, 1, 2)), work.tree(((0, 1), 2))
    between = work.flow(0b11)[0].rate
    assert between == pytest.approx(2 * 100 * 100 / 50)
    assert (one.hash, one.between) == (300, 0)
    assert (tree.hash, tree.between) == (pytest.approx(300 + between), pytest.approx(between))


def test_a_tree_is_told_by_its_joins():
    assert list(joins_in(((0, 2), 1, (3, 4)))) == [(0b1, 0b100), (0b1000, 0b10000), (0b101, 0b10, 0b11000)]
    assert mask_in(((0, 2), 3)) == 0b1101


def test_results_of_a_second_add_up_to_all_combinations():
    """Equation 2 as printed is negative after some seconds; what is meant telescopes."""
    rates, selectivity = (3.0, 2.0, 5.0, 1.0), 0.01
    whole = [selectivity * math.prod(r * t for r in rates) for t in range(1, 9)]
    assert np.cumsum([results_in_second(t, rates, selectivity) for t in range(1, 9)]) == pytest.approx(whole)
    printed = [t**4 - sum(k**4 for k in range(1, t)) for t in range(1, 9)]
    assert printed[-1] < 0 < results_in_second(8, rates, selectivity)


def test_the_output_rate_is_results_over_work():
    each = Operations(hash=1.75e-7, move=4.27e-7, compare=4.91e-8)  # table 3
    rates = (1000.0, 200.0)
    seconds = work_a_second(rates, 0.5, each)
    assert seconds == pytest.approx(1200 * (1.75e-7 + 4.27e-7 + 1.5 * 4.91e-8))
    assert output_rate(3, rates, 0.01, 0.5, each) == pytest.approx(0.01 * 200_000 * 5 / seconds)


def test_storing_is_nearly_always_cheaper_by_the_papers_formulas():
    """S against D says split for joins that one operator does with hardly any work at all."""
    each = Operations(hash=1.75e-7, move=4.27e-7, compare=4.91e-8)
    work = Work(inputs_of((1000.0,) * 4, (1000,) * 4))
    found = store_or_discard(work, (0b11, 0b1100), each)
    stored = 2 * 1000 * 1000 / 1000
    assert found.store == pytest.approx(stored * (1.75e-7 + 2 * 4.27e-7 + 4.91e-8))
    assert found.discard == pytest.approx(2 * (1 - 1 / 1000) * 1e6 * 4.91e-8)
    rng = random.Random(1)
    said = []
    for _ in range(200):
        rates = [10 ** rng.uniform(1, 4) for _ in range(4)]
        work = Work(inputs_of(rates, [10 ** rng.uniform(2, 5) for _ in range(4)]))
        said.append(store_or_discard(work, (0b11, 0b1100), each).splits)
    assert sum(said) > 190


def test_prices_are_kept_where_the_environment_says(operations, monkeypatch, tmp_path):
    assert kept_at() == operations
    assert prices().hash == 3e-8
    monkeypatch.delenv("THALWEG_OPERATIONS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_at() == tmp_path / "thalweg" / "operations.json"


def test_prices_are_measured_once(tmp_path):
    path = tmp_path / "new" / "operations.json"
    measured = prices(path)
    assert prices(path) == measured
    assert set(json.loads(path.read_text())["seconds"]) == set(NAMES)
    # What a tuple takes is between a nanosecond and ten microseconds, whatever the machine.
    work = Work(inputs_of((20_000.0,) * 3, (20_000,) * 3))
    assert 1e-9 < work.tree((0, 1, 2)).seconds(measured) / 60_000 < 1e-5


@pytest.mark.parametrize("kept", ['{"version": 2, "seconds": {"hash": 1}}', '{"version": 0}', "[]", "", "{"])
def test_prices_that_can_not_be_read_are_measured_again(tmp_path, monkeypatch, kept):
    path = tmp_path / "operations.json"
    path.write_text(kept)
    again = Operations(*[1e-9] * len(NAMES))
    monkeypatch.setattr("thalweg.cost.calibrate.measure", lambda: again)
    assert prices(path) == again
    assert prices(path) == again
    assert json.loads(path.read_text())["version"] == 2

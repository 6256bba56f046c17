"""What the one-way join methods ship, counted on simulated streams: Poisson arrivals, uniform keys."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.planners.examples import catalog, query, stream
from thalweg.catalog.model import Costs
from thalweg.cost.methods import BITS_A_KEY, BLOOM_BYTES, stretch
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import PlanOptions
from thalweg.planners.search.sequences import StepCosts
from thalweg.planners.table import Session

LENGTH_S = 5_000
HASHES = 8


@dataclass(frozen=True)
class Case:
    """A head, a stream with its window, and one between whose window the head meets first.

    Rates, distinct keys, seconds.
    """

    rate1: float
    values1: int
    rate2: float
    values2: int
    window_s: float
    interval_s: float
    between: tuple[float, int, float] | None = None


CASES = {
    "fewer keys": Case(3.0, 20, 12.0, 50, 4.0, 0.5),
    "more keys": Case(10.0, 150, 6.0, 40, 10.0, 0.1),
    "few keys": Case(2.0, 4, 3.0, 5, 2.0, 1.0),
    "short window": Case(20.0, 30, 30.0, 60, 0.5, 0.2),
    "results of a join": Case(6.0, 30, 9.0, 45, 5.0, 0.25, (20.0, 40, 6.0)),
    "results of a join with fewer": Case(6.0, 60, 4.0, 30, 8.0, 0.25, (5.0, 40, 6.0)),
}


class Stream:
    """Tuples by key and time; all numbers of one are below those of the next key."""

    def __init__(self, rng, rate, values):
        count = rng.poisson(rate * LENGTH_S)
        self.time, self.key = rng.uniform(0, LENGTH_S, count), rng.integers(0, values, count)
        order = np.lexsort((self.time, self.key))
        self.time, self.key = self.time[order], self.key[order]
        self.place = self.at(self.key, self.time)

    @staticmethod
    def at(key, time):
        return key * (4.0 * LENGTH_S) + time + LENGTH_S

    def between(self, key, start, end):
        """How many tuples of a key came from `start` to before `end`."""
        first, last = (np.searchsorted(self.place, self.at(key, t)) for t in (start, end))
        return last - first

    def joined(self, other, seconds):
        """Its tuples, each as often as another's window has its key."""
        often = other.between(self.key, self.time - seconds, self.time)
        self.time, self.key, self.place = (np.repeat(a, often) for a in (self.time, self.key, self.place))


def slots(stream, seconds):
    """Each key of each slot once: keys and the slots' beginnings."""
    pairs = np.unique(np.stack([stream.key, np.floor(stream.time / seconds)]), axis=1)
    return pairs[0], pairs[1] * seconds


def floor(time, seconds):
    return np.floor(time / seconds) * seconds


def bloom(rng, keys, values, count):
    """A Bloom filter of each slot's keys: their bytes, and which of all values each lets through."""
    through, sizes = np.zeros((count, values), dtype=bool), np.full(count, float(BLOOM_BYTES))
    for i, inside in enumerate(keys):
        if len(inside):
            hashes = rng.integers(
                0, 2**62, (values, HASHES)
            )  # others each time: who gets through once, may not again
            bits = np.zeros(BITS_A_KEY * len(inside), dtype=bool)
            bits[hashes[inside] % len(bits)] = True
            through[i] = bits[hashes % len(bits)].all(axis=1)
        sizes[i] += len(inside) * BITS_A_KEY / 8
    return through, sizes


def counted(case, seed):
    """What each method ships a second: (method, carries) -> number, of filters the bytes."""
    rng = np.random.default_rng(seed)
    one, two = Stream(rng, case.rate1, case.values1), Stream(rng, case.rate2, case.values2)
    if case.between:
        one.joined(Stream(rng, *case.between[:2]), case.between[2])
    life, tau, g = case.window_s, case.interval_s, float(stretch(case.interval_s, case.window_s))
    found = {("SP-S", "tuples"): len(two.time), ("SP-D", "tuples"): len(one.time)}

    # The keys of each slot go, each with its first and last time in it; who is in the window then may match.
    slot = np.floor(one.time / tau)
    begins = np.flatnonzero((np.diff(slot, prepend=-1) != 0) | (np.diff(one.key, prepend=-1) != 0))
    ends = np.append(begins[1:], len(slot)) - 1
    key, start, end = one.key[begins], one.time[begins], one.time[ends]
    found["SM-S1", "keys"] = found["SM-D2", "keys"] = len(key)
    begun = np.searchsorted(one.place[begins], one.at(two.key, two.time + life), side="right")
    over = np.searchsorted(one.place[ends], one.at(two.key, two.time))
    found["SM-S1", "tuples"] = np.count_nonzero(begun > over)
    matched = two.between(key, start - life, end) > 0
    found["SM-D2", "matches"] = np.count_nonzero(matched)
    found["SM-D2", "tuples"] = np.count_nonzero(np.repeat(matched, ends - begins + 1))

    # A presence begins with a tuple that finds its key not in the window, and ends with another's expiry.
    new = (np.diff(two.time, prepend=-np.inf) > life) | (np.diff(two.key, prepend=-1) > 0)
    first = np.flatnonzero(new)
    ends = np.append(two.time[first[1:] - 1], two.time[-1]) + life
    begins = two.time[first]
    found["SM-S2", "keys"] = found["SM-D1", "keys"] = 2 * len(first)
    found["SM-S2", "requests"] = np.count_nonzero(one.between(two.key[first], begins, ends))
    since = begins[np.cumsum(new) - 1]
    found["SM-S2", "tuples"] = np.count_nonzero(one.between(two.key, since, two.time + life))
    found["SM-D1", "tuples"] = np.count_nonzero(two.between(one.key, one.time - life, one.time))

    # A filter for each stretch.
    count, values = int(LENGTH_S / g), max(case.values1, case.values2)
    key, start = slots(one, g)
    cuts = np.searchsorted(np.sort(start), g * (np.arange(1, count) - 0.5))
    inside = np.split(key[np.argsort(start)].astype(int), cuts)
    through, sizes = bloom(rng, inside, values, count)
    found["SB-S1", "bloom"] = sizes.sum()
    total = np.concatenate([np.zeros((1, values)), through.cumsum(axis=0)])
    from_, to = (np.clip((t / g).astype(int), 0, count - 1) for t in (two.time, two.time + life))
    found["SB-S1", "tuples"] = (total[to + 1, two.key] > total[from_, two.key]).sum()
    every = np.arange(case.values2)
    inside = [every[two.between(every, i * g - life, (i + 1) * g) > 0] for i in range(count)]
    through, sizes = bloom(rng, inside, values, count)
    found["SB-D1", "bloom"] = sizes.sum()
    found["SB-D1", "tuples"] = through[np.clip((one.time / g).astype(int), 0, count - 1), one.key].sum()
    return {what: float(amount) / LENGTH_S for what, amount in found.items()}


def estimated(case):
    """The same by the formulas, for the last step of the head's sequence."""
    ends = [(case.rate1, case.values1, 1.0), case.between, (case.rate2, case.values2, case.window_s)]
    given = [end for end in ends if end is not None]
    known = catalog(
        [
            stream(f"s{i}", f"n{i}", {"k": "long"}, rate=r, distinct={"k": d})
            for i, (r, d, _) in enumerate(given)
        ],
        costs=Costs(interval_s=case.interval_s),
    )
    froms = ", ".join(f"s{i} [RANGE {round(1e3 * s)} MILLISECONDS]" for i, (_, _, s) in enumerate(given))
    on = " AND ".join(f"s0.k = s{i}.k" for i in range(1, len(given)))
    problem = Session(known, PlanOptions("-")).problem(query(f"SELECT s0.k FROM {froms} WHERE {on}", known))
    last = len(given) - 1
    by_name = StepCosts(problem).steps(0, [(1 << last) - 1], [last]).methods
    return {
        (m, s.carries): float((s.bytes_per_s if s.carries == "bloom" else s.tuples_per_s)[0])
        for m in METHODS
        for s in by_name[m].shipments
    }


@pytest.mark.parametrize("name", CASES)
def test_what_is_shipped_is_what_is_estimated(name):
    found, expected = counted(CASES[name], seed=7), estimated(CASES[name])
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=0.05)

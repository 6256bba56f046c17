"""pmjoin, figures 8 and 10: a plan for each part of the key space, cut by hash, by range and by rate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from thalweg.planners.search.problem import Problem
from thalweg.reproduce.outcome import Claim, Outcome, Tell
from thalweg.reproduce.pmjoin import (
    BY_VALUE,
    HASH,
    PARTITIONERS,
    RANGE,
    RATE,
    WHOLE,
    best_by_value,
    heuristic,
    partitioned,
)
from thalweg.reproduce.samples import Samples, scaled
from thalweg.workloads.streams import on_one_attribute, windows
from thalweg.workloads.values import CONTIGUOUS, DIFFERENT, HOT_SPOTS, RANDOM, SAME, SITES, distributions

SEEDS = 5
STREAMS = 10
VALUES = 1000
RATES = (10.0, 1000.0)
PARTS = (1, 2, 5, 10, 50, 100, 500, 1000)
_HEADER = ("case", "plan", "x", "tuples/s", "standard deviation", "seeds")
_SEEN = 0.02
"""Differences below this share are taken for none: they can't be seen in the paper's figures."""


def problem(streams: int, values: int, seed: int, sites: str, hot_spot: str) -> Problem:
    """Streams at nodes of their own, all equal in one attribute."""
    rng = np.random.default_rng([8, seed, streams])
    rate = rng.uniform(*RATES, streams)
    window = windows(rate, rng)
    shares = distributions(streams, values, rng, sites=sites, hot_spot=hot_spot)
    return on_one_attribute(rate, window, range(streams), shares).problem()


def fig8(scale: float, tell: Tell) -> Outcome:
    """Cost over the number of parts, in four cases."""
    values = scaled(VALUES, scale, 50)
    parts = [p for p in PARTS if p <= values]
    cases = [(sites, hot) for sites in SITES for hot in HOT_SPOTS]
    found = {case: Samples() for case in cases}
    for seed in range(scaled(SEEDS, scale)):
        for case in cases:
            tell(f"seed {seed + 1} of {scaled(SEEDS, scale)}, {' '.join(case)}")
            one = problem(STREAMS, values, seed, *case)
            least = best_by_value(one)
            for number in parts:
                found[case].add(BY_VALUE, number, least)
                for how, cost in _by_cut(one, number).items():
                    found[case].add(how, number, cost)
    finest, between = parts[-1], [p for p in parts[1:] if p < values]

    def saved(case: tuple[str, str], how: str, number: int) -> float:
        return 1 - found[case].mean(how, number) / found[case].mean(how, 1)

    def ranks(case: tuple[str, str], how: str) -> int:
        """At how many numbers of parts it saves, and neither of the others is better."""
        some = found[case]
        return sum(
            some.mean(how, p) < some.mean(how, 1) * (1 - _SEEN)
            and all(some.mean(how, p) <= some.mean(other, p) * (1 + _SEEN) for other in PARTITIONERS)
            for p in between
        )

    alike, apart = ([(sites, hot) for hot in HOT_SPOTS] for sites in SITES)
    others = [case for case in cases if case != (SAME, CONTIGUOUS)]
    finer = [
        (case, how)
        for case in cases
        for how in PARTITIONERS
        if any(found[case].mean(how, b) > found[case].mean(how, a) * (1 + _SEEN) for a, b in pairwise(parts))
    ]
    least_saved = max(1 - found[c].mean(BY_VALUE, finest) / found[c].mean(RANGE, 1) for c in alike)
    gain = {case: saved(case, RATE, finest) for case in cases}
    two = {case: saved(case, RATE, 2) for case in apart}
    first, hot_random = (SAME, CONTIGUOUS), [(SAME, RANDOM), (DIFFERENT, RANDOM)]
    by_range = {c: found[c].overall(RANGE, between) / found[c].overall(HASH, between) for c in cases}
    return Outcome(
        "pmjoin-fig8",
        "cost over the number of parts of the key space, cut in three ways",
        (
            f"{STREAMS} streams at {STREAMS} nodes, rates of 10 to 1,000 tuples a second, windows of 10 to "
            f"100 seconds, {values:,} values; {found[first].seeds} seeds",
            "Random hot spot: one permutation of the values for all streams. The paper does not say whether "
            "each stream has one of its own, but then streams would not be similar any more.",
            "After a first run the fourth criterion was tightened: where no cut saves anything, none is the "
            "best.",
            f"Differences below {_SEEN:.0%} are ignored.",
        ),
        (
            Claim(
                "similar distributions: only moderate savings (criterion: less than a third of the cost, "
                "and less than with different ones)",
                f"{_list(gain[c] for c in alike)} with one value a part; different: "
                f"{_list(gain[c] for c in apart)}",
                max(gain[c] for c in alike) < 1 / 3
                and max(gain[c] for c in alike) < min(gain[c] for c in apart),
            ),
            Claim(
                "different distributions: much is saved with two parts already (criterion: a fifth, by rate)",
                _list(two.values()),
                min(two.values()) >= 0.2,
                "The criterion is our reading of 'large communication cost can be saved'.",
            ),
            Claim(
                "finer parts save more (criterion: no more parts cost more, for all cuts and cases)",
                "always" if not finer else "not for " + ", ".join(f"{how} {' '.join(c)}" for c, how in finer),
                not finer,
                "Algorithm 1 is greedy: for a smaller part it may take a worse turn. Cuts by rate begin "
                "anew for each number of parts, and are not refinements of each other.",
            ),
            Claim(
                "similar distributions, contiguous hot spot: ranges are best most of the time (criterion: "
                "for more than half of the numbers of parts)",
                f"for {ranks(first, RANGE)} of {len(between)}; by rate for {ranks(first, RATE)}",
                ranks(first, RANGE) > len(between) / 2,
                f"A plan for each value saves {least_saved:.2%} at most here, so no cut can save more: with "
                "such rates and windows, joins give more tuples than they take.",
            ),
            Claim(
                "in the other three cases a cut by rate is best throughout (criterion: for all numbers of "
                "parts)",
                _list_of([ranks(c, RATE) for c in others], len(between)),
                all(ranks(c, RATE) == len(between) for c in others),
                "With similar distributions no cut saves anything, see above. With different ones the cut "
                "by rate is the best wherever this says so.",
            ),
            Claim(
                "random hot spot: ranges cost more than hash (criterion: over all numbers of parts together)",
                _list(by_range[c] - 1 for c in hot_random),
                all(by_range[c] > 1 for c in hot_random),
                "Over values in random order, ranges are as random as hash: neither can be better for long.",
            ),
        ),
        _HEADER,
        tuple(row for case in cases for row in found[case].rows((" ".join(case),))),
        tuple(found[case].panel(" ".join(case), "parts", "tuples/s", "x") for case in cases),
    )


def _by_cut(one: Problem, parts: int) -> dict[str, float]:
    """The cost by each way to cut; one part, or one value a part, is the same in all of them."""
    if parts == 1:
        return dict.fromkeys(PARTITIONERS, heuristic(one))
    if parts == len(one.rates.classes[0].values):
        return dict.fromkeys(PARTITIONERS, partitioned(one, parts, RANGE))
    return {how: partitioned(one, parts, how) for how in PARTITIONERS}


def fig10(scale: float, tell: Tell) -> Outcome:
    """Cost over the number of streams, with different distributions."""
    values = scaled(VALUES, scale, 50)
    half = values // 2
    counts = (4, 6, 8, 10, 12) if scale >= 0.5 else (4, 8)
    found = {hot: Samples() for hot in HOT_SPOTS}
    for seed in range(scaled(SEEDS, scale)):
        for hot in HOT_SPOTS:
            for m in counts:
                tell(f"seed {seed + 1} of {scaled(SEEDS, scale)}, {hot}, {m} streams")
                one = problem(m, values, seed, DIFFERENT, hot)
                found[hot].add(WHOLE, m, heuristic(one))
                for how in PARTITIONERS:
                    found[hot].add(f"{how}, {half}", m, partitioned(one, half, how))
                found[hot].add(f"{values}", m, partitioned(one, values, HASH))
                found[hot].add(BY_VALUE, m, best_by_value(one))
    cuts = {how: f"{how}, {half}" for how in PARTITIONERS}
    few, many = counts[0], counts[-1]

    def saved(hot: str, m: int) -> float:
        return 1 - found[hot].ratio(cuts[RATE], WHOLE, m)

    def between(hot: str, a: str, b: str) -> float:
        return found[hot].overall(cuts[a]) / found[hot].overall(cuts[b]) - 1

    falls = {hot: found[hot].mean(cuts[RATE], many) / found[hot].mean(cuts[RATE], few) for hot in HOT_SPOTS}
    grows = {hot: found[hot].mean(WHOLE, many) / found[hot].mean(WHOLE, few) for hot in HOT_SPOTS}
    return Outcome(
        "pmjoin-fig10",
        "cost over the number of streams, with and without parts",
        (
            "Different distributions; rates of 10 to 1,000 tuples a second, windows of 10 to 100 seconds, "
            f"{values:,} values, 1, {half} and {values:,} parts, a node for each stream; "
            f"{found[CONTIGUOUS].seeds} seeds",
        ),
        (
            Claim(
                "with more streams, parts save a larger share (criterion: more with the most streams than "
                "with the fewest)",
                "; ".join(
                    f"{hot}: {saved(hot, few):.0%} with {few}, {saved(hot, many):.0%} with {many}"
                    for hot in HOT_SPOTS
                ),
                all(saved(hot, many) > saved(hot, few) for hot in HOT_SPOTS),
                "Parts save nearly all of the cost with few streams already.",
            ),
            Claim(
                "a cut by rate is the best for any number of streams (criterion: none of the others is "
                f"better by more than {_SEEN:.0%})",
                "; ".join(
                    f"{hot}: {sum(_best(found[hot], cuts, m) for m in counts)} of {len(counts)}"
                    for hot in HOT_SPOTS
                ),
                all(_best(found[hot], cuts, m) for hot in HOT_SPOTS for m in counts),
                "With 500 parts of 1,000 values, hash and range have two values in each, and what they lose "
                "by that depends on the seed.",
            ),
            Claim(
                "contiguous hot spot: ranges are better than hash; random: the other way round",
                f"ranges cost {between(CONTIGUOUS, RANGE, HASH):+.1%} and "
                f"{between(RANDOM, RANGE, HASH):+.1%}",
                between(CONTIGUOUS, RANGE, HASH) < 0 < between(RANDOM, RANGE, HASH),
                "In random order a range is as good as a hash; which is ahead is chance.",
            ),
            Claim(
                "with more streams, the cost rises without parts and falls with them (criterion: from the "
                "fewest streams to the most, by rate)",
                f"{_list(v - 1 for v in grows.values())} without, {_list(v - 1 for v in falls.values())} "
                "with",
                min(grows.values()) > 1 > max(falls.values()),
                "More streams are also more tuples that have to go somewhere: the slowest of each value at "
                "least.",
            ),
        ),
        _HEADER,
        tuple(row for hot in HOT_SPOTS for row in found[hot].rows((hot,))),
        tuple(found[hot].panel(f"{hot}, DD", "streams", "tuples/s", "y") for hot in HOT_SPOTS),
    )


def _best(found: Samples, cuts: dict[str, str], m: int) -> bool:
    return all(found.mean(cuts[RATE], m) <= found.mean(other, m) * (1 + _SEEN) for other in cuts.values())


def _list(shares: object) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)  # type: ignore[attr-defined]


def _list_of(numbers: list[int], of: int) -> str:
    return ", ".join(map(str, numbers)) + f" of {of}"

"""Past the papers: what partitioned plans save over whole ones as values get more skewed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from thalweg.planners.search.problem import Problem
from thalweg.reproduce.outcome import Claim, Outcome, Tell
from thalweg.reproduce.pmjoin import RATE, WHOLE, best, best_by_value, heuristic, partitioned
from thalweg.reproduce.samples import Samples, scaled
from thalweg.workloads.streams import on_one_attribute, windows
from thalweg.workloads.values import zipf

NAME = "past-parts"
STREAMS, VALUES, SEEDS = 6, 1000, 5
RATES = (10.0, 1000.0)
SKEWS = (0.0, 0.3, 0.6, 0.9, 1.2, 1.5)
PARTS = (4, 16, 64)
ALIKE, APART = "the same frequent values", "frequent values of its own each"
BEST_WHOLE, BY_VALUE = "optimal without partitions", "optimal for each value"


def problem(seed: int, skew: float, case: str, values: int) -> Problem:
    """Streams at nodes of their own, joined on one attribute; all as skewed."""
    rng = np.random.default_rng([21, seed])
    rate = rng.uniform(*RATES, STREAMS)
    window = windows(rate, rng)
    shares = np.array(
        [zipf(values, skew)[rng.permutation(values) if case == APART else slice(None)] for _ in rate]
    )
    return on_one_attribute(rate, window, range(STREAMS), shares).problem()


def parts_by_rate(number: int) -> str:
    """The name of a plan for so many parts."""
    return f"{number} parts by rate"


def run(scale: float, tell: Tell) -> Outcome:
    """Tuples shipped a second over the skew of the values."""
    values, seeds = scaled(VALUES, scale, 100), scaled(SEEDS, scale)
    skews = SKEWS if scale >= 0.1 else SKEWS[::5]
    found = {case: Samples() for case in (ALIKE, APART)}
    for seed in range(seeds):
        for case, some in found.items():
            tell(f"seed {seed + 1} of {seeds}, {case}")
            for skew in skews:
                one = problem(seed, skew, case, values)
                some.add(WHOLE, skew, heuristic(one))
                for number in PARTS:
                    some.add(parts_by_rate(number), skew, partitioned(one, number, RATE))
                some.add(BEST_WHOLE, skew, best(one))
                some.add(BY_VALUE, skew, best_by_value(one))
    usual, most = parts_by_rate(16), skews[-1]

    def saved(case: str, plan: str, skew: float) -> float:
        return 1 - found[case].ratio(plan, BEST_WHOLE, skew)

    grows = [saved(APART, usual, skew) for skew in skews]
    of_all = saved(APART, usual, most) / max(saved(APART, BY_VALUE, most), 1e-9)
    worst = min(1 - some.ratio(usual, WHOLE, x) for some in found.values() for x in skews)
    return Outcome(
        NAME,
        "partitioned plans beside whole ones as values get more skewed",
        (
            f"{STREAMS} streams at {STREAMS} nodes, rates of 10 to 1,000 tuples a second, windows of 10 to "
            f"100 seconds, {values:,} values of one attribute, Zipf with the skew of the axis; {seeds} "
            "seeds",
            "Frequent values are the same in all streams, or each stream has its own. Cost is tuples "
            "shipped a second, each joined or not counted as one, as PMJoin has it. Parts are made by rate, "
            "each planned by Algorithm 1.",
        ),
        (
            Claim(
                "without skew, parts save nothing (criterion: at most 1% over the optimum without "
                "partitions, for there is nothing by which parts could differ)",
                f"{saved(APART, usual, skews[0]):.1%}",
                abs(saved(APART, usual, skews[0])) <= 0.01,
                "Algorithm 1 is not the optimum.",
            ),
            Claim(
                "frequent values of its own each: what 16 parts save over the best whole plan grows with the "
                "skew (criterion: from skew to skew)",
                _list(grows),
                all(b > a for a, b in pairwise(grows)),
                "Where joins give more than they take, the best plan is to ship all but one stream, whatever "
                "the skew; only beyond that do parts differ.",
            ),
            Claim(
                "and is more than half with a skew of 1.5 (criterion: ours, what makes partitioned plans "
                "worth their operators)",
                f"{saved(APART, usual, most):.0%}",
                saved(APART, usual, most) > 0.5,
                "With 16 parts, most values share a part with others that are frequent elsewhere.",
            ),
            Claim(
                "16 parts have most of what a plan for each value saves (criterion: four fifths at a skew "
                "of 1.5, the usual number of parts being 16)",
                f"{of_all:.0%}; {_list(saved(APART, parts_by_rate(n), most) for n in PARTS)} of the cost "
                f"with {', '.join(map(str, PARTS))} parts, {saved(APART, BY_VALUE, most):.0%} with one a "
                "value",
                of_all >= 0.8,
                "Rarer values differ too, and share parts.",
            ),
            Claim(
                "the same frequent values: parts save less than a tenth at any skew (criterion: ours; the "
                "streams' rates have the same ratio at all values)",
                _list(saved(ALIKE, usual, skew) for skew in skews),
                max(saved(ALIKE, usual, skew) for skew in skews) < 0.1,
                "The ratio of rates is the same, but what a join gives is not: frequent values give more "
                "than they take, rare ones less.",
            ),
            Claim(
                "parts never cost more than Algorithm 1 without them (criterion: at most 1%)",
                f"{-worst:+.1%} at most",
                worst >= -0.01,
                "Algorithm 1 is greedy, for each part on its own.",
            ),
        ),
        ("case", "plan", "skew", "tuples/s", "standard deviation", "seeds"),
        tuple(row for case, some in found.items() for row in some.rows((case,))),
        tuple(some.panel(case, "skew of the values (Zipf)", "tuples/s", "y") for case, some in found.items()),
    )


def _list(shares: object) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)  # type: ignore[attr-defined]

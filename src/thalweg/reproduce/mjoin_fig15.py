"""MJoin, section 3.5, figure 15 and table 2: six inputs that overflow memory, flushed in two ways."""

from __future__ import annotations

import numpy as np

from thalweg.reproduce.arrivals import Stream, batches, poisson, size, specs, spread
from thalweg.reproduce.budgeted import Op, Timeline, needed, timed
from thalweg.reproduce.outcome import Claim, Outcome, Panel, Tell, thinned
from thalweg.reproduce.overflow_join.join import Policy

NAME = "mjoin-fig15"
KEYS, REPEATED = 10_000, 10  # S1 and S4 have so many tuples, the others so many times as many
DELAYS_MS = (1.0, 5.0, 5.0)
BUDGET = 0.5  # of the bytes that the MJoins would hold in the end
RANDOM, COORDINATED, BINARY = "MJoins, random flushing", "MJoins, coordinated flushing", "binary XJoins"
_BATCHES = 300
_PARTS = 12
_DECREASED = 0.5  # a rate below this part of the greatest is substantially decreased
_UNIQUE14 = 2  # the column of S1+S2+S3 that has S2.unique14: after the places of S1's and S2's tuples


def streams(scale: float) -> list[Stream]:
    """The inputs of table 2; the second one of each triplet also stores the attribute of the last join."""
    rng = np.random.default_rng(35)
    keys = max(10, round(KEYS * scale))
    made = []
    for _ in range(2):
        rows = REPEATED * keys
        made += [
            Stream(spread(rng, keys, keys), poisson(rng, keys, DELAYS_MS[0])),
            Stream(spread(rng, rows, keys), poisson(rng, rows, DELAYS_MS[1]), (spread(rng, rows, rows),)),
            Stream(spread(rng, rows, keys), poisson(rng, rows, DELAYS_MS[2])),
        ]
    return made


def run(scale: float, tell: Tell) -> Outcome:
    """Run the three plans on the clock of arrivals."""
    inputs = streams(scale)
    described = specs(inputs)
    few, many = len(inputs[0]), len(inputs[1])
    tops = (many * REPEATED, many * REPEATED)
    stars = Op((_star(0, few, many), _star(3, few, many)), tops)
    pairs = Op((_pairs(0, few, many), _pairs(3, few, many)), tops)
    plans: dict[str, tuple[Op, Policy]] = {
        RANDOM: (stars, "random"),
        COORDINATED: (stars, "coordinated"),
        BINARY: (pairs, "random"),
    }
    budget = round(BUDGET * needed(described, stars))
    arrivals = batches(inputs, size(inputs, _BATCHES), blocked_ms=max(DELAYS_MS))
    runs = {t.plan: t for t in timed(plans, described, arrivals, budget, tell)}
    length = arrivals[-1].at
    return Outcome(
        NAME,
        "six inputs that overflow memory: random flushing, coordinated flushing, binary XJoins",
        (
            f"Table 2: S1 and S4 {few:,} tuples (mean delay {DELAYS_MS[0]:g} ms), the others {many:,} "
            f"({DELAYS_MS[1]:g} ms); (S1 S2 S3) and (S4 S5 S6) on an attribute with {few:,} values, their "
            f"results on one with {many:,}. S6's attribute is tenk5 in the table and tenk6 in the query: "
            "taken as one.",
            f"Not in the paper, so chosen here: every plan has {budget:,} bytes, {BUDGET:.0%} of what the "
            "MJoins would hold in the end, shared out among its operators by what each would hold.",
            "Time: tuples come at their times and work takes its CPU time. Inputs are blocked after "
            f"{max(DELAYS_MS):g} ms without an arrival, {sum(b.idle for b in arrivals):.1f} s of "
            f"{length:.0f} s in all, and the second phase has that time.",
        ),
        _claims(runs, length),
        ("plan", "memory to memory", "disk to memory", "clean-up", "results", "bytes written"),
        tuple((t.plan, *t.phases, sum(t.phases), t.written) for t in runs.values()),
        (
            Panel(
                "results while tuples arrive, and in the clean-up",
                "seconds since the first arrival",
                tuple(thinned(t.plan, t.at, t.results, 1000) for t in runs.values()),
                (length,),
                "the last arrival",
            ),
            Panel(
                "results of the first phase",
                "seconds since the first arrival",
                tuple(
                    thinned(t.plan, np.array([b.at for b in arrivals]), np.cumsum(t.pushed), 1000)
                    for t in runs.values()
                ),
            ),
        ),
    )


def _star(i: int, few: int, many: int) -> Op:
    return Op((i, i + 1, i + 2), (few, many, many), key=_UNIQUE14)


def _pairs(i: int, few: int, many: int) -> Op:
    return Op((Op((i, i + 1), (few, many)), i + 2), (many, many), key=_UNIQUE14)


def _claims(runs: dict[str, Timeline], length: float) -> tuple[Claim, ...]:
    moments = np.linspace(0, length, _PARTS + 1)
    counts = {name: t.by(moments)[1:] for name, t in runs.items()}
    full = max(t.full for t in runs.values())
    begun = min(int(np.searchsorted(moments, full)), _PARTS - 1)
    late = {name: each[begun:] for name, each in counts.items()}
    best = np.maximum(np.maximum(late[RANDOM], late[BINARY]), 1)
    first = {name: t.phases[0] for name, t in runs.items()}
    after, others = _after_flushes(runs[COORDINATED])
    rates = np.diff(runs[COORDINATED].by(moments))
    greatest = max(1, int(rates.max()))
    share = first[COORDINATED] / sum(runs[COORDINATED].phases)
    return (
        Claim(
            "coordinated flushing maximizes the output rate (criterion: more results than both other plans "
            "after each twelfth of the time that begins when all have overflowed, and in the first phase)",
            f"{(late[COORDINATED] / best).min():.2f} to {(late[COORDINATED] / best).max():.2f} times the "
            f"results of the better other plan; in the first phase {first[COORDINATED]:,} against "
            f"{first[RANDOM]:,} (random) and {first[BINARY]:,} (binary)",
            bool((late[COORDINATED] > best).all()) and first[COORDINATED] > max(first[RANDOM], first[BINARY]),
            "Random flushing of a three-way join leaves a result only where all its members were kept; two "
            "XJoins keep a pair that has met, and so come between.",
        ),
        Claim(
            "its curve has jumps: the rate drops when a partition is spilled and rises again "
            "(criterion: a batch with a spill has fewer results than the one before it more often than not, "
            "and other batches more often more)",
            f"fewer in {after:.0%} of the batches with a spill and in {others:.0%} of the others",
            after > 0.5 > others,
            "Where a batch has few results, chance decides whether it has more than the one before.",
        ),
        Claim(
            "in the last part its output rate is substantially decreased, as most results are out "
            f"(criterion: in the last twelfth below {_DECREASED:.0%} of the greatest)",
            f"{rates[-1] / greatest:.0%} of the greatest; {share:.0%} of the results came in the first phase",
            bool(rates[-1] < _DECREASED * greatest),
            "While all inputs last there is ever more to be found; in the paper's run some inputs may have "
            "ended before.",
        ),
    )


def _after_flushes(run: Timeline) -> tuple[float, float]:
    """How often a batch has fewer results than the one before: one with a spill, and others."""
    spilled = np.diff(run.on_disk) > 0
    fewer = np.diff(run.pushed) < 0
    begun = run.on_disk[1:] > 0  # before that, nothing is spilled at all
    return _mean(fewer[spilled]), _mean(fewer[begun & ~spilled])


def _mean(flags: np.ndarray) -> float:
    return float(flags.mean()) if len(flags) else 0.0

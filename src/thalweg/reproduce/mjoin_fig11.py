"""MJoin, section 3.2, figure 11: a stream whose rate changes, with less memory than the inputs need."""

from __future__ import annotations

import numpy as np

from thalweg.reproduce.arrivals import Stream, batches, poisson, size, specs, spread
from thalweg.reproduce.budgeted import Op, Timeline, needed, timed
from thalweg.reproduce.outcome import Claim, Outcome, Panel, Tell, thinned
from thalweg.reproduce.overflow_join.join import Policy

NAME = "mjoin-fig11"
SIZES = (100_000, 100_000, 200_000)
DELAY_MS = 5.0
SLOWER = 10  # how much slower S3 is in the middle third than in the others
BUDGETS = (0.7, 0.5, 0.3)  # of the bytes of all inputs
MJOIN = "MJoin"
HIGH, LOW = "XJoin tree, fluctuating high: (S1 S2) S3", "XJoin tree, fluctuating low: (S1 S3) S2"
_BATCHES = 400
_PARTS = 12  # of the time, four in each third
_CLOSE = 0.02  # flushing is random: counts closer than this are the same


def streams(scale: float) -> list[Stream]:
    """Key-to-key: S3's keys are those of S1 and S2 and as many others."""
    rng = np.random.default_rng(32)
    first, second, third = (max(10, round(n * scale)) for n in SIZES)
    made = [Stream(spread(rng, n, n), poisson(rng, n, DELAY_MS)) for n in (first, second)]
    # Arrivals of an even process, with its time stretched where the stream is slow.
    even = poisson(rng, third, 1.0)
    length = first * DELAY_MS
    done = np.cumsum([0, SLOWER, 1, SLOWER]) / (2 * SLOWER + 1)
    at = np.interp(even / even[-1], done, np.array([0, 1, 2, 3]) * length / 3)
    return [*made, Stream(spread(rng, third, third), at)]


def run(scale: float, tell: Tell) -> Outcome:
    """Run the MJoin and both trees on the clock of arrivals."""
    inputs = streams(scale)
    a, b, c = (len(s) for s in inputs)
    fast = a * DELAY_MS / 3 / (c * SLOWER / (2 * SLOWER + 1))
    plans: dict[str, tuple[Op, Policy]] = {
        MJOIN: (Op((0, 1, 2), (a, b, c)), "random"),
        HIGH: (Op((Op((0, 1), (a, b)), 2), (a, c)), "random"),
        LOW: (Op((Op((0, 2), (a, c)), 1), (a, b)), "random"),
    }
    described = specs(inputs)
    whole = needed(described, plans[MJOIN][0])
    arrivals = batches(inputs, size(inputs, _BATCHES), blocked_ms=fast * SLOWER)
    runs: dict[str, dict[str, Timeline]] = {}
    for budget in BUDGETS:
        tell(title := f"{budget:.0%} of the memory")
        made = timed(plans, described, arrivals, round(budget * whole), tell)
        runs[title] = {t.plan: t for t in made}
    length = float(max(s.at[-1] for s in inputs[:2])) / 1e3
    third = float(inputs[2].at[-1]) / 3e3
    return Outcome(
        NAME,
        "a stream whose rate changes, with less memory than the inputs need",
        (
            f"Key-to-key joins of {a:,}, {b:,} and {c:,} tuples. Not in the paper, so chosen here: mean "
            f"delays of {DELAY_MS:g} ms for S1 and S2; S3 {fast:.2f} ms, and {fast * SLOWER:.1f} ms in the "
            "middle third.",
            f"The paper only says that memory is less than the inputs, {whole:,} bytes: every plan has "
            f"{', '.join(f'{budget:.0%}' for budget in BUDGETS)} of them, shared out among its operators by "
            "what each would hold in the end; all flush at random.",
            "Time: tuples come at their times and work takes its CPU time, of which there is plenty; what "
            "counts is what is in memory. Inputs are blocked after the slowest stream's delay without an "
            f"arrival ({sum(b.idle for b in arrivals):.2f} s of {length:.0f} s), and the second phase has "
            "that time.",
        ),
        tuple(claim for title, each in runs.items() for claim in _claims(title, each, third)),
        ("plan", "case", "memory to memory", "disk to memory", "clean-up", "bytes written"),
        tuple((t.plan, title, *t.phases, t.written) for title, each in runs.items() for t in each.values()),
        tuple(
            Panel(
                f"{title}: results while tuples arrive",
                "seconds since the first arrival",
                tuple(thinned(t.plan, *_arriving(t)) for t in each.values()),
                (third, 2 * third),
                "S3's rate changes",
            )
            for title, each in runs.items()
        ),
    )


def _arriving(run: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """The run without its clean-up, which is over in a moment."""
    kept = run.at <= run.ended
    return run.at[kept], run.results[kept]


def _claims(title: str, runs: dict[str, Timeline], third: float) -> tuple[Claim, ...]:
    moments = np.linspace(0, 3 * third, _PARTS + 1)
    rates = {name: np.diff(t.by(moments)) for name, t in runs.items()}
    thirds = {name: each.reshape(3, -1).sum(axis=1).tolist() for name, each in rates.items()}
    best = np.maximum(rates[HIGH], rates[LOW])
    high, low = thirds[HIGH], thirds[LOW]
    return (
        Claim(
            f"{title}: MJoin has the highest output rate throughout (criterion: in none of twelve parts of "
            "the time fewer results than either tree, in all more)",
            f"fewer in {int((rates[MJOIN] < best).sum())} of {_PARTS} parts; "
            f"{sum(thirds[MJOIN]):,} results against {sum(high):,} and {sum(low):,}",
            bool((rates[MJOIN] >= best).all()) and sum(thirds[MJOIN]) > max(sum(high), sum(low)),
            note="Intermediate results take memory that MJoin has for its inputs: it is full after "
            f"{runs[MJOIN].full:.0f} s, an operator of the trees after {runs[HIGH].full:.0f} s (high) and "
            f"{runs[LOW].full:.0f} s (low). The less memory there is, the more this is outweighed: of what "
            "is flushed at random, MJoin needs all three members of a result, an XJoin a pair that has met.",
        ),
        Claim(
            f"{title}: while S3 is fast, the tree that has it high is ahead (criterion: more than "
            f"{_CLOSE:.0%} more results in the first third)",
            f"{high[0]:,} against {low[0]:,}",
            high[0] > low[0] * (1 + _CLOSE),
            note="S3 fills the operator that it comes into, and low in the tree that one also has S1 to "
            "hold; as long as no memory is full, the trees are even.",
        ),
        Claim(
            f"{title}: when S3 is slow, the other tree has the higher rate (criterion: more than "
            f"{_CLOSE:.0%} more results in the second third)",
            f"{high[1]:,} against {low[1]:,}",
            low[1] > high[1] * (1 + _CLOSE),
            note="The operator that S3 comes into fills more slowly then, that of S1 and S2 as fast as ever.",
        ),
        Claim(
            f"{title}: when S3 is fast again, the first order is back (criterion: more "
            f"than {_CLOSE:.0%} more results in the last third)",
            f"{high[2]:,} against {low[2]:,}; in its four parts "
            + _beside(rates[HIGH][-4:], rates[LOW][-4:]),
            high[2] > low[2] * (1 + _CLOSE),
            "All memory is full by then and most of what it holds came earlier, since random flushing keeps "
            "old tuples and new ones alike: the two draw level, and the order turns late or not at all.",
        ),
    )


def _beside(one: np.ndarray, other: np.ndarray) -> str:
    return ", ".join(f"{int(a):,} and {int(b):,}" for a, b in zip(one, other, strict=True))

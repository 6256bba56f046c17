"""MJoin, section 3.3, figure 12: results over time with the right and the wrong probing sequence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.kernel.nway import Counters, NWayJoin
from thalweg.kernel.tree import JoinTree
from thalweg.reproduce.arrivals import batches, size, specs
from thalweg.reproduce.mjoin import paper_seconds
from thalweg.reproduce.mjoin_table1 import PAPER, RIGHT, TREE, WRONG, meetings, sequences, streams
from thalweg.reproduce.outcome import Claim, Outcome, Panel, Tell, thinned, when
from thalweg.reproduce.replay import Plan, Trace, replay_all, times

NAME = "mjoin-fig12"
_TIMES = 10  # the inputs of section 3.3 so many times over, with as many more values: the same fan-out
_BATCHES = 100
_REPEATS = 9
_SHARES = np.arange(0.1, 1.01, 0.1)
_CLEAR = 0.1  # runs of the same plan differ by up to 6 percent, so less than this says nothing


def run(scale: float, tell: Tell) -> Outcome:
    """Replay the inputs of table 1 as fast as each plan takes them."""
    inputs = streams(_TIMES * scale)
    met = meetings(inputs)
    right, wrong = sequences(met, right=True), sequences(met, right=False)
    plans: dict[str, Callable[[], Plan]] = {
        RIGHT: lambda: NWayJoin(specs(inputs), probing=right),
        WRONG: lambda: NWayJoin(specs(inputs), probing=wrong),
        TREE: lambda: JoinTree(specs(inputs), ((0, 1), 2)),
    }
    tuples = sum(len(s) for s in inputs)
    arrivals = batches(inputs, size(inputs, _BATCHES))
    traces = {t.plan: t for t in replay_all(plans, arrivals, tell, repeats=times(_REPEATS, scale))}
    idle = {name: t.work[-1] / arrivals[-1].at for name, t in traces.items()}
    return Outcome(
        NAME,
        "results over time with the right and the wrong probing sequence",
        (
            f"The inputs of mjoin-table1, {_TIMES * scale:g} times over with as many more values (the same "
            f"fan-out): {tuples:,} tuples, {len(arrivals)} batches, so that calls do not outweigh work.",
            "Time is CPU time: arrivals are replayed as fast as each plan takes them, since with the "
            f"paper's delays this machine would be busy {max(idle.values()):.2%} of the time at the most and "
            "all plans would give the same curve. Each batch's time is the least of "
            f"{times(_REPEATS, scale)} runs.",
        ),
        _claims(traces),
        ("plan", "CPU seconds", "to the right sequence", "results", "hashes", "comparisons"),
        tuple(
            (
                *(t.plan, float(t.work[-1]), float(t.work[-1] / traces[RIGHT].work[-1])),
                *(int(t.results[-1]), t.counters.hashes, t.counters.comparisons),
            )
            for t in traces.values()
        ),
        (
            Panel(
                "replayed as fast as possible",
                "CPU seconds",
                tuple(thinned(t.plan, t.work, t.results) for t in traces.values()),
            ),
        ),
    )


def _claims(traces: dict[str, Trace]) -> tuple[Claim, ...]:
    right, wrong, tree = (when(traces[n].work, traces[n].results, _SHARES) for n in (RIGHT, WRONG, TREE))
    extra = wrong[-1] / right[-1] - 1
    behind = wrong > tree * (1 + _CLEAR)
    counted = {n: traces[n].counters for n in traces}
    more = counted[WRONG].comparisons / counted[RIGHT].comparisons - 1
    stored = counted[TREE].hashes - counted[RIGHT].hashes
    return (
        Claim(
            "with the right sequence MJoin is faster than with the wrong one "
            f"(criterion: more than {_CLEAR:.0%} at the end)",
            f"the wrong one takes {extra:+.1%} CPU time for {more:.1%} more comparisons",
            bool(extra > _CLEAR),
            "Both make the same results, which is most of the work; what is left is no more than what runs "
            "differ by.",
        ),
        Claim(
            "MJoin with the right sequence is ahead of the XJoin tree throughout "
            f"(criterion: the tree takes more than {_CLEAR:.0%} longer in the end, and at no tenth of the "
            f"results more than {_CLEAR:.0%} less)",
            f"the tree takes {(tree / right).min():.2f} to {(tree / right).max():.2f} times as long",
            bool(tree[-1] > right[-1] * (1 + _CLEAR) and (right < tree * (1 + _CLEAR)).all()),
            "Storing intermediate results and finding them anew take about as long here.",
            note=f"The tree hashes and moves {stored:,} intermediate results more.",
        ),
        Claim(
            "after some point the wrong sequence makes MJoin slower than the XJoin tree "
            f"(criterion: more than {_CLEAR:.0%} at some tenth of the results and all after it)",
            f"slower at {behind.sum()} of {len(_SHARES)} tenths; at the end the tree takes "
            f"{tree[-1] / wrong[-1]:.2f} times as long as the wrong sequence",
            bool(behind[-1]),
            "A comparison costs far less than storing an intermediate result does, and the wrong sequence "
            f"adds {counted[WRONG].comparisons - counted[RIGHT].comparisons:,} of the former where the tree "
            f"adds {stored:,} of the latter. Nor does it follow from the paper's own tables 1 and 3, by "
            f"which the wrong sequence takes {_paper(WRONG):.2f} s and the tree {_paper(TREE):.2f} s.",
        ),
    )


def _paper(plan: str) -> float:
    """Table 1's counts at table 3's costs."""
    hashes, comparisons = PAPER[plan]
    return paper_seconds(Counters(hashes, hashes, comparisons))

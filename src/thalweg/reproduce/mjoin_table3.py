"""MJoin, section 3.6, table 3: the prices of operations on the paper's machine and on this one."""

from __future__ import annotations

from thalweg.cost.mjoin import work_a_second
from thalweg.cost.operations import prices
from thalweg.cost.splitting import Operations
from thalweg.reproduce.mjoin import COMP_S, HASH_S, MOVE_S
from thalweg.reproduce.outcome import Bars, Claim, Outcome, Tell

NAME = "mjoin-table3"
TICKS = {"hash": 175.008, "move": 426.518, "comp": 49.133}
PAPER = {"hash": HASH_S, "move": MOVE_S, "comp": COMP_S}
RATIO = 2.5
WORK_S, FASTEST_S = 1.52e-3, 1e-3
"""Equation 2's denominator for figure 16's streams, and the delay of the fastest of them."""


def run(scale: float, tell: Tell) -> Outcome:
    """Compare the printed prices with those that were measured on this machine; there is nothing to scale."""
    tell("the prices of this machine")
    each = prices()
    here = {"hash": each.hash, "move": each.move, "comp": each.compare}
    ratio = {"paper": PAPER["move"] / PAPER["hash"], "here": here["move"] / here["hash"]}
    a_tuple = sum(PAPER.values())  # without a match, a tuple is hashed, moved and compared once
    rate = WORK_S / a_tuple
    again = work_a_second([rate], 0.0, _paper(each))
    return Outcome(
        NAME,
        "the prices of operations",
        (
            "The paper read its processor's counters (1 GHz, so a tick is a nanosecond), for tuples in Java "
            "objects. Here the prices are fitted to the times of joins of known counts on the kernel, which "
            "works on whole columns; a move is that of a column of one tuple.",
        ),
        (
            Claim(
                "ticks and seconds of table 3 agree (criterion: within 0.2%, as they are rounded)",
                ", ".join(f"{name} {TICKS[name]:g} ticks, {PAPER[name]:.3g} s" for name in TICKS),
                all(abs(TICKS[name] * 1e-9 / PAPER[name] - 1) < 0.002 for name in TICKS),
            ),
            Claim(
                "a move takes about 2.5 times as long as a hash (criterion: 2 to 3 times)",
                f"paper: {ratio['paper']:.2f} times; here: {ratio['here']:.2f} times",
                all(2 <= r <= 3 for r in ratio.values()),
                "Here a move copies some bytes of a column, for many tuples at once; a hash looks for a "
                "slot in a table that is larger than the caches.",
            ),
            Claim(
                "moves cost the most, comparisons the least (criterion: the order)",
                ", ".join(f"{name} {here[name] * 1e9:.3g} ns" for name in here),
                here["move"] > here["hash"] > here["comp"],
                "See above: moves are cheap in columns.",
            ),
            Claim(
                "the work of a time unit is 1.52 ms, more than the fastest stream's delay of 1 ms, so that "
                "the operator falls behind (criterion: the comparison means what the paper takes it to "
                "mean)",
                f"at table 3's prices, 1.52 ms a second is the work for {rate:,.0f} tuples a second "
                f"({again:.2e} s)",
                again > 1,
                "The denominator of equation 2 is seconds of work for a second of arrivals. 1.52 ms a "
                "second leaves the processor idle for 99.8 percent of the time; it can't be compared with "
                "the delay between two tuples.",
            ),
        ),
        ("operation", "paper, ns", "here, ns", "times faster"),
        tuple((n, PAPER[n] * 1e9, here[n] * 1e9, PAPER[n] / here[n] if here[n] else "") for n in PAPER),
        (
            Bars("the paper's machine", "nanoseconds", {n: s * 1e9 for n, s in PAPER.items()}),
            Bars("this machine", "nanoseconds", {n: s * 1e9 for n, s in here.items()}),
        ),
    )


def _paper(each: Operations) -> Operations:
    """The paper's prices; operations that it does not name are this machine's."""
    return Operations(**{**each.__dict__, "hash": HASH_S, "move": MOVE_S, "compare": COMP_S})

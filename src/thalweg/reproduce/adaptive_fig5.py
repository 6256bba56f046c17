"""adaptive, section 5.2, figure 5: what it costs to find another plan, and to move to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.reproduce.adaptive import CHANGES_US, LOW, SEEDS, planned, rows
from thalweg.reproduce.adaptive_fig4 import setting
from thalweg.reproduce.adaptive_run import Trace, run
from thalweg.reproduce.outcome import Bars, Claim, Outcome, Tell

CENTRAL, DISTRIBUTED = "central", "distributed"
WAYS = (CENTRAL, DISTRIBUTED)
ROUNDS = range(1, len(CHANGES_US) + 1)
PAPER = {4: (1.4, 2.5), 8: (2.1, 2.7)}
"""The overhead of distributed updates to that of central ones."""
_MUCH = 2.0
Key = tuple[str, int]


def four(scale: float, tell: Tell) -> Outcome:
    """Figure 5(a): a join of four streams."""
    return _figure("adaptive-fig5a", 4, scale, tell)


def eight(scale: float, tell: Tell) -> Outcome:
    """Figure 5(b): a join of eight streams."""
    return _figure("adaptive-fig5b", 8, scale, tell)


@dataclass(frozen=True)
class Spent:
    """Seconds that all nodes spend on a change of plan.

    `modification` is the search that found the new plan, `others` those of the round that did not change it.
    `migration` are the copies of windows, and the messages that ask for them and that agree on the moment.
    """

    modification: float
    others: float
    migration: float
    messages: float

    @property
    def total(self) -> float:
        return self.modification + self.migration


def spent(streams: int, seeds: int, tell: Tell) -> dict[Key, Spent]:
    """What each way spends in each round, averaged over runs."""
    plan, found = planned(streams, LOW), {}
    gone: dict[str, list[Trace]] = {way: [] for way in WAYS}
    for seed in range(seeds):
        tell(f"{streams} streams, run {seed + 1} of {seeds}")
        arrived = rows(streams, seed)
        for way in WAYS:
            gone[way].append(run(streams, arrived, plan, way))
    for way, traces in gone.items():
        for n in ROUNDS:
            each = np.array([_spent(trace, n) for trace in traces])
            found[way, n] = Spent(*each.mean(axis=0).tolist())
    return found


def _spent(trace: Trace, n: int) -> tuple[float, ...]:
    mine = [c for c in trace.changes if c.round == n]
    taken = [c for c in mine if c.taken]
    return (
        sum(c.modification.total_s for c in taken),
        sum(c.modification.total_s for c in mine if not c.taken),
        sum(c.migration.total_s for c in taken) + sum(trace.copies.get(n, [])),
        sum(c.modification.messages + c.migration.messages for c in taken) + len(trace.copies.get(n, [])),
    )


def _figure(name: str, streams: int, scale: float, tell: Tell) -> Outcome:
    seeds = max(1, round(SEEDS * scale))
    found = spent(streams, seeds, tell)
    fewer = spent(4, 1, tell) if streams > 4 else None
    return Outcome(
        name,
        f"the cost of changing the plan of a join of {streams} streams",
        (
            *setting(streams, seeds),
            "Times are those of messages and bytes; planning itself takes no time here. In a round several "
            "searches can begin, as the measured rate moves on; the one that found the new plan counts as "
            "its modification, the others stand beside it.",
        ),
        _claims(streams, found, fewer),
        ("plan", "round", "rate", "modification", "migration", "total", "messages", "other searches"),
        tuple(_row(key, one) for key, one in found.items()),
        tuple(
            Bars(
                f"{what}: time of all nodes",
                "milliseconds",
                {f"round {n}, {way}": 1000 * getattr(found[way, n], what) for n in ROUNDS for way in WAYS},
            )
            for what in ("modification", "migration")
        ),
    )


def _row(key: Key, one: Spent) -> tuple[str | int | float, ...]:
    way, n = key
    rate = "rises" if n % 2 else "falls"
    return way, n, rate, one.modification, one.migration, one.total, one.messages, one.others


def _claims(streams: int, found: Mapping[Key, Spent], fewer: Mapping[Key, Spent] | None) -> tuple[Claim, ...]:
    def each(what: str, way: str) -> list[float]:
        return [getattr(found[way, n], what) for n in ROUNDS]

    def shown(what: str) -> str:
        return "; ".join(f"{way} {_ms(each(what, way))}" for way in WAYS)

    low, high = PAPER[streams]
    ratios = [found[DISTRIBUTED, n].total / found[CENTRAL, n].total for n in ROUNDS]
    everything = [
        (found[DISTRIBUTED, n].total + found[DISTRIBUTED, n].others)
        / (found[CENTRAL, n].total + found[CENTRAL, n].others)
        for n in ROUNDS
    ]
    searches, moves = ({way: each(what, way) for way in WAYS} for what in ("modification", "migration"))
    claims = [
        Claim(
            f"the overhead of distributed updates is {low:g} to {high:g} times that of central ones "
            "(criterion: in each round, to one decimal)",
            ", ".join(f"{r:.2f}" for r in ratios)
            + f"; with searches that change nothing {', '.join(f'{r:.2f}' for r in everything)}",
            all(low <= round(r, 1) <= high for r in ratios),
            "Most of the difference is messages for finding the plan. The paper has more of them "
            "(adaptive-table3) and a smaller factor, so its moves must cost more than here. It does not say "
            "how large messages are, nor what else counts.",
        ),
        Claim(
            "finding a plan costs more when the rate rises than when it falls",
            shown("modification"),
            all(min(s[0::2]) > max(s[1::2]) for s in searches.values()),
            "Three searches are made in a round, as the measured rate moves on, and the one that finds the "
            "plan does not begin where the paper's does.",
        ),
        Claim(
            "finding a plan costs more when it is distributed",
            shown("modification"),
            all(d > c for c, d in zip(searches[CENTRAL], searches[DISTRIBUTED], strict=True)),
        ),
        Claim(
            f"moving costs {'more' if streams == 4 else 'less'} when it is distributed",
            shown("migration"),
            all(
                (d > c) if streams == 4 else (d < c)
                for c, d in zip(moves[CENTRAL], moves[DISTRIBUTED], strict=True)
            ),
            "Both ways end at the same plan, and the nodes move to it once, when it is settled: the same "
            "windows are copied, and the same messages written. In the paper each swap is moved to at once.",
        ),
    ]
    if fewer is not None:
        growth = [found[way, n].modification / fewer[way, n].modification for way in WAYS for n in ROUNDS]
        claims.append(
            Claim(
                "finding a plan costs significantly more than with four streams (criterion: at least "
                f"{_MUCH:g} times as much)",
                f"{min(growth):.1f} to {max(growth):.1f} times as much",
                min(growth) >= _MUCH,
            )
        )
    return tuple(claims)


def _ms(seconds: Sequence[float]) -> str:
    return ", ".join(f"{1000 * s:.0f}" for s in seconds) + " ms"

"""semijoin, figure 7: the six one-way joins, run in the simulator, while one parameter varies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from thalweg.plan.one_way import METHODS
from thalweg.reproduce.outcome import Outcome, Tell
from thalweg.reproduce.samples import scaled
from thalweg.reproduce.semijoin import ATTRIBUTE_BYTES, OneWay, estimated, ran
from thalweg.reproduce.semijoin_fig7_claims import Measured, claims

SEEDS = 3
_WHOLE, _SMALL = 0.3, 0.05
"""Scales from which an experiment has all its values, or some of them."""
Vary = Callable[[OneWay, float], OneWay]


@dataclass(frozen=True)
class Parameter:
    """What a part of figure 7 varies, from the smallest to the largest value."""

    part: str
    what: str
    label: str
    values: Sequence[float]
    vary: Vary


PARAMETERS = {
    p.part: p
    for p in (
        Parameter(
            "a", "the tuple size of S2", "bytes of a tuple of S2", (250, 750, 1250, 1750, 2250),
            lambda one, v: replace(one, second=replace(one.second, bytes=v)),
        ),
        Parameter(
            "b", "the stream rate of S2", "tuples of S2 a second", (100, 200, 300, 400, 500),
            lambda one, v: replace(one, second=replace(one.second, rate=v)),
        ),
        Parameter(
            "c", "the selectivity factor of S2", "selectivity factor of S2", (0.02, 0.05, 0.1, 0.2, 0.5),
            lambda one, v: replace(one, second=replace(one.second, distinct=round(1 / v))),
        ),
        Parameter(
            "d", "the window of S2", "window of S2, ms", (1000, 2000, 3000, 4000, 5000),
            lambda one, v: replace(one, second=replace(one.second, window_ms=v)),
        ),
        Parameter(
            "e", "the latency", "latency, ms", (5, 15, 25, 35, 45),
            lambda one, v: replace(one, latency_ms=v),
        ),
        Parameter(
            "f", "the bandwidth", "bandwidth, kbps", (256, 512, 1024, 2048, 4096),
            lambda one, v: replace(one, kbps=v),
        ),
        Parameter(
            "g", "the execution interval", "execution interval, ms", (50, 100, 150, 200, 250),
            lambda one, v: replace(one, interval_ms=v),
        ),
    )
}  # fmt: skip
"""The paper's ranges of e and f; its figure is lost, so the others are ours, around the defaults."""


def measured(parameter: Parameter, scale: float, tell: Tell) -> Measured:
    """Runs all methods at all values."""
    found = Measured()
    seeds = scaled(SEEDS, scale)
    for x in _values(parameter, scale):
        one = parameter.vary(OneWay(), x)
        for into, formulas, at in (
            (found.own, "own", one),
            (found.printed, "printed", one),
            (found.own_at_once, "own", replace(one, latency_ms=0.0)),
        ):
            into.update({(m, x): seconds for m, seconds in estimated(at, formulas).items()})
        for seed in range(seeds):
            tell(f"{parameter.label}: {x:g}, seed {seed + 1} of {seeds}")
            for method in METHODS:
                done = ran(one, method, seed)
                found.add(method, x, done.transmission_s(one), done.work_s)
                found.at_once.add(method, x, done.transmission_s(replace(one, latency_ms=0.0)) + done.work_s)
    return found


def _values(parameter: Parameter, scale: float) -> Sequence[float]:
    """All values; of a small experiment the ends and the middle, and of a tiny one no more than two."""
    if scale >= _WHOLE:
        return parameter.values
    return parameter.values[::2] if scale >= _SMALL else parameter.values[2::2]


def run(part: str, scale: float, tell: Tell) -> Outcome:
    """One part of figure 7."""
    parameter = PARAMETERS[part]
    found = measured(parameter, scale, tell)
    one = OneWay()
    return Outcome(
        f"semijoin-fig7{part}",
        f"the one-way joins over {parameter.what}",
        (
            f"S1 at N1 joins S2 at N2. Both: {one.first.rate:g} tuples a second, {one.first.bytes:g} bytes "
            f"each, a selectivity factor of {one.first.selectivity:g}, windows of {one.first.window_ms:g} "
            f"ms; a latency of {one.latency_ms:g} ms, {one.kbps:g} kbps, an execution interval of "
            f"{one.interval_ms:g} ms. {parameter.what[0].upper()}{parameter.what[1:]} varies.",
            "Run in the simulator: the operators of a run, over three seconds with full windows; "
            f"{found.total.seeds} seeds. Transmission: a latency for each message, and its bytes by the "
            "bandwidth. Work: tuples put into windows, and tuples met by probes in nested loops, 0.1 "
            "microseconds each. The paper does not give its prices of work. Its figure is lost: which values "
            "it has in (a) to (d) and (g) is not known.",
            f"A join attribute has {ATTRIBUTE_BYTES} bytes. The paper's messages of SM-S1 that count expired "
            "tuples are not sent here: that a tuple has expired follows from times. SB-S1 and SB-D1 are "
            "the methods with Bloom filters, which the paper does not have.",
        ),
        claims(part, found),
        (
            "plan",
            parameter.label,
            "s/s",
            "standard deviation",
            "transmission",
            "work",
            "estimated",
            "printed",
        ),
        tuple(
            (
                m,
                x,
                mean,
                spread,
                found.transmission.mean(str(m), float(x)),
                found.work.mean(str(m), float(x)),
                found.own[str(m), float(x)],
                found.printed.get((str(m), float(x)), ""),
            )
            for m, x, mean, spread, _ in found.total.rows()
        ),
        tuple(
            some.panel(what, parameter.label, "seconds a second", "x" if part == "f" else "")
            for what, some in (
                ("transmission and work", found.total),
                ("transmission", found.transmission),
                ("work", found.work),
            )
        ),
    )


fig7a, fig7b, fig7c, fig7d, fig7e, fig7f, fig7g = (partial(run, part) for part in PARAMETERS)

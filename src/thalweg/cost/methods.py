"""The one-way join methods (semijoin 3.1, and two with Bloom filters): their work and their shipments.

A one-way join leads from a *current stream* at a source site to a stream at its destination. Each method
takes work and sends messages, one every tau seconds. Simple joins ship whole tuples of one side; semijoins
ship keys first, or filters that know them, and then the tuples that have a match.

    SP-S   stream -> source: its tuples                     the result is at the source
    SP-D   current -> destination: its tuples               at the destination
    SM-S1  keys of current, back the tuples that match      at the source
    SM-S2  new keys of the stream, back which are wanted, then the tuples that match    at the source
    SM-D1  new keys of the stream, back the tuples that match     at the destination
    SM-D2  keys of current, back which match, then the tuples     at the destination
    SB-S1  as SM-S1 with filters of current's keys          at the source
    SB-D1  as SM-D1 with filters of the window's keys       at the destination

Arrivals are Poisson, keys uniform and independent, and the smaller of two key domains is in the larger. A
value of S is then in a window of T seconds with probability 1 - exp(-T r / d), and all below follows. Work
is counted as in semijoin's appendix B, of these amounts; docs/planning.md says where its own differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.catalog.model import Costs
from thalweg.cost.keys import Floats

Number = float | Floats
Lines = list[tuple[Floats, Floats]]
"""Fixed and per-byte costs; a row for each target or origin, and in it one for each site."""

KEYS, BLOOM = "keys", "bloom"
"""The two forms of shipped keys: the keys themselves, or Bloom filters of them."""
BITS_A_KEY = 12
"""Bits of a Bloom filter for each of its keys."""
BLOOM_BYTES = 16
"""Bytes of a Bloom filter's header."""
FALSE = 0.6185**BITS_A_KEY
"""The false-positive rate of a Bloom filter."""
_LARGEST = 1e300


@dataclass(frozen=True)
class Side:
    """One side of a one-way join: r, F, P, d and w of semijoin's table 4; arrays for many joins at once.

    Results of joins differ from streams. Several may have the key of one tuple: then `draws` are the keys a
    second. And a value can only occur while the windows joined before have it: a share `held` of the time,
    which ends `leaves` times a second.
    """

    rate: Number
    width: Number
    key: Number
    distinct: Number
    window: Number = 0.0
    draws: Number | None = None
    held: Number = 1.0
    leaves: Number = 0.0


@dataclass(frozen=True)
class Shipment:
    """A flow to the other site, one message an interval; `back` is from the destination to the source.

    `sender` is the part of the join that sends it: `current`, `source` (of the stream), or a helper.
    """

    sender: str
    carries: str
    back: bool
    tuples_per_s: Number
    bytes_per_s: Number


@dataclass(frozen=True)
class Method:
    """A method's seconds of work a second, by the part that does it, and its shipments.

    Keys or filters are of a slot of `interval_s` seconds each.
    """

    name: str
    work: Mapping[str, Number]
    shipments: tuple[Shipment, ...]
    interval_s: Number

    @property
    def work_s(self) -> Number:
        return sum(self.work.values())


def at_source(method: str) -> bool:
    """Whether a method's result is at the current stream's site."""
    return method in ("SP-S", "SM-S1", "SM-S2", "SB-S1")


def distinct_among(values: Number, tuples: Number) -> Floats:
    """How many of so many equally likely values occur among a Poisson number of tuples: k_i and m_i.

    semijoin's table 4 has lost its formula for this.

    >>> [round(float(distinct_among(*case)), 6) for case in ((2.0, 2.0), (1.0, 5.0), (9.0, 0.0))]
    [1.264241, 0.993262, 0.0]
    """
    return -np.asarray(values) * np.expm1(-np.asarray(tuples) / values)


def stretch(tau: float, life: Number) -> Floats:
    """G, the seconds that a Bloom filter covers: a quarter of the window it meets, to the microsecond."""
    quarter = np.round(np.asarray(life) / 4, 6)
    return np.maximum(tau, np.where(np.asarray(life) < _LARGEST, quarter, 0.0))


def simple(current: Side, stream: Side, costs: Costs) -> tuple[Method, Method]:
    """The methods that ship whole tuples: SP-S (adaptive eq. 1) and SP-D (eq. 2)."""
    cp, cu, ci, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.interval_s
    r1, r2, w2 = current.rate, stream.rate, np.minimum(stream.window, _LARGEST)
    here = {"step": r1 * cu + r1 * cp * w2 + r2 * cu}
    there = {"step": r1 * ci + r1 * cp * w2 + r2 * cu}
    return (
        made("SP-S", here, (ship("source", "tuples", True, r2, stream.width),), tau),
        made("SP-D", there, (ship("current", "tuples", False, r1, current.width),), tau),
    )


def methods(current: Side, stream: Side, costs: Costs) -> dict[str, Method]:
    """The methods of a one-way join, in terms of appendix B."""
    cp, cu, ci, ch, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.hash_s, costs.interval_s
    r1, r2 = current.rate, stream.rate
    d1, d2, w2 = (np.minimum(n, _LARGEST) for n in (current.distinct, stream.distinct, stream.window))
    f12, f21 = np.minimum(1.0, d2 / d1), np.minimum(1.0, d1 / d2)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        life = np.where(w2 > 0, np.minimum(w2 / np.asarray(r2), _LARGEST), 0.0)  # T of S's window
        g = stretch(tau, life)
        tests = np.minimum(life / g, _LARGEST) + 1

        bursts = _bursts(current, d1)

        def seen(seconds: Number) -> Floats:
            """How likely a value of the current stream occurs within some time."""
            return sum((share * -np.expm1(-rate * seconds) for share, rate in bursts), np.zeros(()))

        # Amounts a second. A slot's key covers the time from its first to its last tuple in the slot, and
        # matches every tuple that was in the window at any moment of it.
        keys1 = d1 * seen(tau) / tau
        draws = tau * np.asarray(r1 if current.draws is None else current.draws) / d1
        spread = tau * _spread(draws)
        k2 = distinct_among(d2, w2)
        new2 = r2 * np.exp(-w2 / d2)  # tuples that find their key not in the window; as many leave without it
        matched1 = f12 * distinct_among(d2, w2 + r2 * spread) / d2
        wanted2 = f21 * seen(life + spread)
        requested2 = f21 * sum(share * _requested(r2 / d2, rate, life) for share, rate in bursts)
        present1 = f12 * k2 / d2

        # The same by filters, which also let others through.
        held1, held2 = d1 * seen(g), distinct_among(d2, w2 + r2 * g)
        passed2 = f21 * seen(life + g)
        passed2 = passed2 + (1 - passed2) * -np.expm1(tests * np.log1p(-FALSE))
        passed1 = f12 * held2 / d2
        passed1 = passed1 + (1 - passed1) * FALSE

        def filters(sender: str, back: bool, keys: Floats) -> Shipment:
            return ship(sender, BLOOM, back, 1 / g, keys * BITS_A_KEY / 8 + BLOOM_BYTES)

        def method(
            name: str, work: dict[str, Number], *shipments: Shipment, interval_s: Number = tau
        ) -> Method:
            return made(name, work, shipments, interval_s)

        found = (
            *simple(current, stream, costs),
            method(
                "SM-S1",
                {
                    "reduce": keys1 * cp * w2 + r2 * ci,
                    "step": r1 * ci + r2 * wanted2 * ci + r1 * cp * w2 * wanted2,
                },
                ship("current", KEYS, False, keys1, current.key),
                ship("reduce", "tuples", True, r2 * wanted2, stream.width),
            ),
            # The paper sends s_F, new tuples whose key was wanted before, along with the new keys. Here they
            # go with the other tuples: as many messages and bytes, and keys that all heads can read.
            method(
                "SM-S2",
                {
                    "match": r1 * ci + r1 * ch,
                    "reduce": new2 * requested2 * cp * w2 + r2 * cp * k2 + r2 * ci + 2 * new2 * ci,
                    "step": r1 * ch + 2 * new2 * cu,
                },
                ship("keys", KEYS, True, 2 * new2, stream.key),
                ship("match", "requests", False, new2 * requested2, stream.key),
                ship("reduce", "tuples", True, r2 * requested2, stream.width),
            ),
            method(
                "SM-D1",
                {
                    "reduce": r1 * ci + r1 * cp * k2 + 2 * new2 * ci,
                    "step": r1 * present1 * cp * w2 + r2 * cp * k2 + r2 * ci + 2 * new2 * ci,
                },
                ship("keys", KEYS, True, 2 * new2, stream.key),
                ship("reduce", "tuples", False, r1 * present1, current.width),
            ),
            method(
                "SM-D2",
                {
                    "match": keys1 * cp * w2 + r2 * cu,
                    "reduce": r1 * ci + keys1 * matched1 * cp * (r1 * tau),
                    "step": r1 * matched1 * cp * w2,
                },
                ship("current", KEYS, False, keys1, current.key),
                ship("match", "matches", True, keys1 * matched1, current.key),
                ship("reduce", "tuples", False, r1 * matched1, current.width),
            ),
            method(
                "SB-S1",
                {
                    "reduce": r2 * tests * ch + r2 * ci,
                    "step": r1 * ch + r1 * ci + r2 * passed2 * ci + r1 * cp * w2 * passed2,
                },
                filters("current", False, held1),
                ship("reduce", "tuples", True, r2 * passed2, stream.width),
                interval_s=g,
            ),
            method(
                "SB-D1",
                {
                    "reduce": r1 * ci + r1 * ch,
                    "step": r1 * passed1 * cp * w2 + held2 / g * ch + r2 * ci,
                },
                filters("keys", True, held2),
                ship("reduce", "tuples", False, r1 * passed1, current.width),
                interval_s=g,
            ),
        )
    return {m.name: m for m in found}


def _bursts(current: Side, values: Number) -> tuple[tuple[Floats, Floats], ...]:
    """When a value of the current stream occurs, as if two Poisson processes: the share and rate of each.

    While it can occur it does so at a rate `comes`; that ends at a rate `ends`, and begins again at a rate
    `begins`. The time until such an interrupted Poisson process is seen is a mixture of two exponentials.
    """
    mean = np.asarray(current.rate if current.draws is None else current.draws) / values
    held, ends = np.asarray(current.held), np.asarray(current.leaves)
    always = (ends == 0) | (held >= 1 - 1e-9) | (mean == 0)
    comes, begins = mean / held, ends * held / (1 - held)
    total = comes + ends + begins
    fast = (total + np.sqrt(np.maximum(total * total - 4 * comes * begins, 0.0))) / 2
    slow = comes * begins / fast
    share = np.where(always, 1.0, (fast - mean) / (fast - slow))
    return (share, np.where(always, mean, slow)), (1 - share, np.where(always, mean, fast))


def _spread(draws: Floats) -> Floats:
    """The time from the first to the last of a Poisson number of tuples in a slot, if any, as a share of it.

    For m tuples it is (m - 1) / (m + 1); one tuple takes no time.

    >>> [round(float(_spread(np.array(n))), 3) for n in (1e-9, 1.0, 100.0)]
    [0.0, 0.164, 0.98]
    """
    some = -np.expm1(-draws)
    share = 1 - 2 * (some / draws - np.exp(-draws)) / some
    return np.where(draws > 1e-6, share, 0.0)


def _requested(arrives: Number, probed: Number, life: Number) -> Floats:
    """The share of a key's presences in a window during which it is probed.

    It arrives n times and is probed s times a second, and stays for T seconds after the last arrival. That no
    probe comes from one arrival on has the probability

        u = e^-nT e^-sT + u * (integral over g < T of n e^-ng e^-sg) = (n + s) e / (s + n e), e = e^-(n + s)T

    Seen backwards in time this is also how likely a tuple is to stay behind: without a probe from the
    beginning of the presence until it leaves the window.
    """
    both = np.asarray(arrives) + probed
    found = -np.asarray(probed) * np.expm1(-both * life) / (probed + arrives * np.exp(-both * life))
    return np.where(np.asarray(probed) > 0, found, 0.0)


def ship(sender: str, carries: str, back: bool, tuples: Number, width: Number) -> Shipment:
    """A flow of so many tuples a second, each so wide."""
    return Shipment(sender, carries, back, _finite(tuples), _finite(tuples * width))


def made(
    name: str, work: Mapping[str, Number], shipments: tuple[Shipment, ...], interval_s: Number
) -> Method:
    """A method; no amount is larger than any that can be counted with."""
    return Method(name, {part: _finite(s) for part, s in work.items()}, shipments, interval_s)


def _finite(amount: Number) -> Number:
    return np.minimum(amount, _LARGEST)

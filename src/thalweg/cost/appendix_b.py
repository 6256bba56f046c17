"""The costs of one-way joins as semijoin's appendix B prints them, beside our own (`cost/methods.py`).

Each slot of tau seconds sends m of the other side's distinct values, or the share f of its tuples, whatever
is in a window at that time. docs/planning.md says where our formulas differ. k and m, whose formula is
damaged in print, are the expected number of distinct values; the transfer of w'2 f21 F2 belongs into S(...).
A count of SM-S1 takes eight bytes. The appendix has no Bloom filters.
"""

from __future__ import annotations

import numpy as np

from thalweg.catalog.model import Costs
from thalweg.cost.methods import KEYS, Method, Shipment, Side, distinct_among, made, ship, simple

_COUNT_BYTES = 8.0


def printed(current: Side, stream: Side, costs: Costs) -> dict[str, Method]:
    """The six methods; d is the number of distinct values, F and P the widths of tuples and of keys."""
    cp, cu, ci, ch, tau = costs.probe_s, costs.update_s, costs.insert_s, costs.hash_s, costs.interval_s
    r1, r2, w2 = np.asarray(current.rate), np.asarray(stream.rate), np.asarray(stream.window)
    d1, d2 = np.asarray(current.distinct), np.asarray(stream.distinct)
    f12, f21 = np.minimum(1.0, d2 / d1), np.minimum(1.0, d1 / d2)
    m1, m2 = distinct_among(d1, r1 * tau) / tau, distinct_among(d2, r2 * tau) / tau
    k2 = distinct_among(d2, w2)
    new2, wanted2 = m2 * (1 - f21), k2 * (1 - f12) / tau
    found = (
        *simple(current, stream, costs),
        made(
            "SM-S1",
            {
                "reduce": m1 * cp * w2 + r2 * ci,
                "step": r1 * ci + r2 * f21 * ci + r1 * cp * w2 * f21,
            },
            (
                ship("current", KEYS, False, m1, current.key),
                Shipment("reduce", "tuples", True, r2 * f21, r2 * f21 * stream.width + _COUNT_BYTES / tau),
            ),
            tau,
        ),
        made(
            "SM-S2",
            {
                "match": r1 * ci + r1 * ch,
                "reduce": wanted2 * cp * w2 + r2 * cp * k2 + r2 * ci + new2 * ci,
                "step": r1 * ch + new2 * cu,
            },
            (
                ship("keys", KEYS, True, new2, stream.key),
                ship("match", "requests", False, wanted2, stream.key),
                ship("reduce", "tuples", True, wanted2 + r2 * f21, stream.width),
            ),
            tau,
        ),
        made(
            "SM-D1",
            {
                "reduce": r1 * ci + r1 * cp * k2 + new2 * ci,
                "step": r1 * f12 * cp * w2 + r2 * cp * k2 + r2 * ci + new2 * ci,
            },
            (
                ship("keys", KEYS, True, new2, stream.key),
                ship("reduce", "tuples", False, r1 * f12, current.width),
            ),
            tau,
        ),
        made(
            "SM-D2",
            {
                "match": m1 * cp * w2 + r2 * cu,
                "reduce": r1 * ci + m1 * f12 * cp * (r1 * tau),
                "step": r1 * f12 * cp * w2,
            },
            (
                ship("current", KEYS, False, m1, current.key),
                ship("match", "matches", True, m1 * f12, current.key),
                ship("reduce", "tuples", False, r1 * f12, current.width),
            ),
            tau,
        ),
    )
    return {method.name: method for method in found}

"""Seconds of work and transfer a second (semijoin appendix B; adaptive eqs. 1 to 3).

A shipment sends what has gathered every tau seconds: each message pays the latency of every link on its
path, and its bytes pay their bandwidth. Work is per tuple: probing a window of w tuples costs c_p * w, as
in the papers' nested loops, whatever index a join really has; so plans of all families compare alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.catalog.model import Costs, Link
from thalweg.cost.masks import members
from thalweg.cost.model import Model
from thalweg.cost.rates import Rates


def _link(link: Link, costs: Costs) -> tuple[float, float]:
    per_byte = 8 / (link.mbps * 1e6) if link.mbps else 0.0
    return link.latency_ms / 1e3 / costs.interval_s, per_byte


_MANY = 12
MODEL = Model("time", "seconds of work and transfer a second", _link, work=True)


def join_work(rates: Rates, inputs: Sequence[int], costs: Costs) -> float:
    """Seconds of work a second in an N-way join: its inputs, as sets of streams, probe each other's windows.

    A tuple is put into its own window, and then probes the others one after another, the most selective
    first, as adaptive's head streams do; a join of two is two one-way joins. In a join of very many inputs
    only the first probe counts: few tuples come further, and all orders of all heads would take long.
    """
    if len(inputs) == 2:
        a, b = (rates.flow(i) for i in inputs)
        return (a.rate + b.rate) * costs.update_s + (a.rate * b.window + b.rate * a.window) * costs.probe_s
    if len(inputs) > _MANY:
        least = min(rates.flow(i).window for i in inputs)
        return sum(rates.flow(i).rate * (costs.update_s + costs.probe_s * least) for i in inputs)
    total = 0.0
    flows = {i: rates.flow(i) for i in inputs}
    for head in inputs:
        flow = flows[head]
        total += flow.rate * costs.update_s
        order = _probing_order(rates, head, inputs)
        rate, joined = flow.rate, head
        for other in order:
            total += rate * costs.probe_s * flows[other].window
            if other != order[-1]:
                rate *= rates.selectivity(joined, other) * flows[other].window
                joined |= other
    return total


def _probing_order(rates: Rates, head: int, inputs: Sequence[int]) -> list[int]:
    waiting, joined, order = [i for i in inputs if i != head], head, []
    while len(waiting) > 1:
        best = min(
            waiting,
            key=lambda i: (
                not rates.joinable(joined, i),
                rates.selectivity(joined, i) * rates.flow(i).window,
                members(i),
            ),
        )
        waiting.remove(best)
        joined |= best
        order.append(best)
    return order + waiting

"""The four objectives: the cost of a link in each, and the work of a join.

- bytes: bytes a second between different sites, counted once however many links they cross (pmjoin 3.1).
- usage: bytes a second times latency over the path, the bytes in flight (integrated 2.2).
- dollars: dollars an hour for transfer over the path; a gigabyte is 10^9 bytes.
- time: seconds of work and transfer a second (semijoin appendix B; adaptive eqs. 1 to 3). A shipment sends
  one message every tau seconds. Each message pays the latency of every link on its path, and its bytes pay
  the bandwidth. Probing a window of w tuples costs c_p * w, as in the papers' nested loops, whatever index a
  join really has, so that plans of all families are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from thalweg.catalog.model import Costs, Link
from thalweg.cost.masks import members
from thalweg.cost.rates import Rates


@dataclass(frozen=True)
class Model:
    """How a plan is priced.

    `link` gives the cost of one link: a fixed part for each shipment, and a part for each byte a second.
    With `once`, a shipment between two sites costs the same however many links it crosses. With `work`, the
    operators' seconds of work a second are added.
    """

    name: str
    unit: str
    link: Callable[[Link, Costs], tuple[float, float]]
    once: bool = False
    work: bool = False


def _time(link: Link, costs: Costs) -> tuple[float, float]:
    per_byte = 8 / (link.mbps * 1e6) if link.mbps else 0.0
    return link.latency_ms / 1e3 / costs.interval_s, per_byte


MODELS: Mapping[str, Model] = {
    m.name: m
    for m in (
        Model("bytes", "bytes/s between sites", lambda link, costs: (0.0, 1.0), once=True),
        Model("usage", "bytes in flight between sites", lambda link, costs: (0.0, link.latency_ms / 1e3)),
        Model("dollars", "dollars/hour for transfer", lambda link, _: (0.0, link.usd_per_gb * 3600 / 1e9)),
        Model("time", "seconds of work and transfer a second", _time, work=True),
    )
}

_MANY = 12


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

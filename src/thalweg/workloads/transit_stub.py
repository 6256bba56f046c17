"""integrated's network (4.1): a transit domain of four nodes, and stub domains on each of these.

The paper generates it with GT-ITM: four stub domains on each transit node, of eight nodes each. Here the
number of nodes is given, and the stub domains share those that are not transit. Within a domain links are
random, and all its nodes are connected. The paper only says that links of stub domains cost less; the
latencies, which are the costs in its metric, are ours, but for its prototype's of 1 to 6 ms (4.6).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from thalweg.catalog.model import Link, Links

TRANSIT, STUBS = 4, 4
"""Transit nodes, and stub domains on each of them."""
_EXTRA = 0.4  # the share of further pairs of a domain that have a link, as GT-ITM's stub domains have

Delays = tuple[float, float]
WITHIN, UP, ACROSS = (1.0, 6.0), (5.0, 20.0), (20.0, 60.0)
"""Latencies in ms: of links in a stub domain, from there to the transit node, between transit nodes."""


def links(
    nodes: int,
    seed: int,
    *,
    within: Delays = WITHIN,
    up: Delays = UP,
    across: Delays = ACROSS,
    stubs: int = STUBS,
) -> Links:
    """The links between nodes n0, n1 and so on, of which the first are transit nodes."""
    rng = random.Random(seed)
    made: dict[tuple[int, int], float] = {}

    def connect(domain: Sequence[int], delays: Delays) -> None:
        for place, node in enumerate(domain[1:], start=1):
            made[rng.choice(domain[:place]), node] = rng.uniform(*delays)
        for place, node in enumerate(domain):
            for other in domain[:place]:
                if (other, node) not in made and rng.random() < _EXTRA:
                    made[other, node] = rng.uniform(*delays)

    transit = list(range(min(TRANSIT, nodes)))
    connect(transit, across)
    count = TRANSIT * stubs
    for number in range(count):
        stub = list(range(TRANSIT + number, nodes, count))
        if stub:
            connect(stub, within)
            made[number % TRANSIT, rng.choice(stub)] = rng.uniform(*up)
    pairs = {}
    for (a, b), latency in made.items():
        one = Link(latency_ms=latency, mbps=100.0)
        pairs[f"n{a}", f"n{b}"] = pairs[f"n{b}", f"n{a}"] = one
    return Links(default=None, pairs=pairs)

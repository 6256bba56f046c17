"""integrated's enterprise workload (4.1.1, figure 5): the queries of an airline's operations.

80 percent are of gate agents (one flight), 15 percent of terminals, 5 percent are monitoring queries over
any of the sources, with windows of 1 to 5 minutes. Each has a sink of its own. A record is of 100 bytes.
Figure 5 gives rates, and how often a key occurs; from both follow the numbers of different keys. Ours are
the number of terminals, the share of flights of a carrier, and the sites, which are random.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from thalweg.catalog.model import Catalog, Links, Site, Source, Stats, Stream
from thalweg.query import parse
from thalweg.query.model import Query
from thalweg.workloads.synthetic import Workload

GATE, TERMINAL, MONITORING = 0.80, 0.15, 0.05
"""The shares of the queries."""
TERMINALS = 5
BYTES = 100.0

_FLIGHTS, _DESTINATIONS = 1500, 450
SOURCES: Mapping[str, tuple[float, Mapping[str, tuple[str, float]]]] = {
    "flights": (
        1500 / 300,
        {
            "num": ("long", _FLIGHTS),
            "dest": ("string", _DESTINATIONS),
            "gate": ("string", 100),
            "terminal": ("string", TERMINALS),
            "carrier": ("string", 10),
            "status": ("string", 5),
        },
    ),
    "checkins": (240 / 60, {"flight": ("long", 240 / 2), "status": ("string", 5)}),
    "baggage": (500 / 60, {"flight": ("long", 500 / 4), "status": ("string", 5), "area": ("string", 20)}),
    "weather": (450 / 300, {"city": ("string", 450), "forecast": ("string", 100)}),
    "sales": (70 / 60, {"city": ("string", 70), "amount": ("double", 1000)}),
}
"""For each source its tuples a second, and its columns with their numbers of values."""

_GATE = """SELECT f.gate, b.status AS bags, c.status AS checkin
FROM flights [RANGE 5 MINUTES SLIDE 1 MINUTE] f, baggage [RANGE 1 MINUTE] b, checkins [RANGE 1 MINUTE] c
WHERE f.num = c.flight AND f.num = b.flight AND f.num = {flight}"""
_TERMINAL = """SELECT f.num, f.gate, b.area, c.status, w.forecast
FROM flights [RANGE 5 MINUTES SLIDE 1 MINUTE] f, weather [RANGE 5 MINUTES] w,
  checkins [RANGE 1 MINUTE] c, baggage [RANGE 1 MINUTE] b
WHERE f.dest = w.city AND f.num = c.flight AND f.num = b.flight
  AND f.terminal = '{terminal}' AND f.carrier = 'DL'"""
_JOINED = {
    "checkins": "flights.num = checkins.flight",
    "baggage": "flights.num = baggage.flight",
    "weather": "flights.dest = weather.city",
    "sales": "flights.dest = sales.city",
}
_SHOWN = {
    "flights": "status",
    "checkins": "status",
    "baggage": "area",
    "weather": "forecast",
    "sales": "amount",
}


def workload(nodes: int, links: Links, seed: int, *, queries: int = 300) -> Workload:
    """So many queries in the stated shares, in random order."""
    rng = random.Random(seed)
    catalog = Catalog(
        path="", sites={f"n{i}": Site() for i in range(nodes)}, streams=_streams(nodes, rng), links=links
    )
    monitoring, terminal = round(MONITORING * queries), round(TERMINAL * queries)
    kinds = [_monitoring] * monitoring + [_terminal] * terminal
    kinds += [_gate] * (queries - len(kinds))
    rng.shuffle(kinds)
    asked = [
        parse(kind(rng), name=f"q{number}", schemas=catalog.schemas, times=catalog.times)
        for number, kind in enumerate(kinds)
    ]
    return Workload(catalog, asked, [f"n{rng.randrange(nodes)}" for _ in asked])


def kind_of(query: Query) -> str:
    """Which of the three a query is."""
    if any("num" in one.sql for i in query.inputs for one in i.filters):
        return "gate"
    return "terminal" if any(i.filters for i in query.inputs) else "monitoring"


def _gate(rng: random.Random) -> str:
    return _GATE.format(flight=rng.randrange(_FLIGHTS))


def _terminal(rng: random.Random) -> str:
    return _TERMINAL.format(terminal=f"T{rng.randrange(TERMINALS)}")


def _monitoring(rng: random.Random) -> str:
    """Flights and one to four of the others, which all refer to flights."""
    others = rng.sample(list(_JOINED), rng.randint(1, len(_JOINED)))
    inputs = [f"{name} [RANGE {rng.randint(60, 300)} SECONDS]" for name in ("flights", *others)]
    shown = [f"{name}.{_SHOWN[name]} AS {name}_{_SHOWN[name]}" for name in ("flights", *others)]
    conditions = " AND ".join(_JOINED[name] for name in others)
    return f"SELECT {', '.join(shown)} FROM {', '.join(inputs)} WHERE {conditions}"


def _streams(nodes: int, rng: random.Random) -> dict[str, Stream]:
    return {
        name: Stream(
            name=name,
            site=f"n{rng.randrange(nodes)}",
            time="ts",
            columns={"ts": "timestamp", **{column: type_ for column, (type_, _) in columns.items()}},
            source=Source(format="parquet"),
            stats=Stats(
                rate=rate, bytes=BYTES, distinct={column: float(n) for column, (_, n) in columns.items()}
            ),
        )
        for name, (rate, columns) in SOURCES.items()
    }

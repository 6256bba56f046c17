"""pmjoin, table 1 and figure 1: three routers, three values, and what three schemes ship."""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.catalog.model import Catalog, Site, Source, Stats, Stream
from thalweg.plan.document import PlannedQuery
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse
from thalweg.reproduce.outcome import Bars, Claim, Outcome, Tell

NAME = "pmjoin-table1"
RATES: Mapping[str, Mapping[str, float]] = {
    "s1": {"a": 0.1, "b": 0.1, "c": 100.0},
    "s2": {"a": 0.03, "b": 50.0, "c": 0.04},
    "s3": {"a": 50.0, "b": 0.01, "c": 0.02},
}
"""Table 1: tuples a second of each value."""
JOINED: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("s1", "s2"): {"a": 0.003, "b": 5.0, "c": 4.0},
    ("s1", "s3"): {"a": 5.0, "b": 0.001, "c": 2.0},
    ("s2", "s3"): {"a": 1.5, "b": 0.5, "c": 0.0008},
}
SQL = """SELECT a.dest FROM s1 [RANGE 500 MILLISECONDS] a, s2 [RANGE 500 MILLISECONDS] b,
s3 [RANGE 500 MILLISECONDS] c WHERE a.dest = b.dest AND b.dest = c.dest"""
CENTRAL, DISTRIBUTED, PARTITIONED = "centralised", "distributed", "partitioned"
PAPER = {CENTRAL: 100.1, DISTRIBUTED: 54.03, PARTITIONED: 0.07}
SCHEMES = {
    CENTRAL: ("simple", {}),
    DISTRIBUTED: ("streamjoinopt", {}),
    PARTITIONED: ("pmjoin", {"partitions": "3", "partitioner": "range"}),
    "distributed, exact": ("optimal", {}),
    "partitioned, exact": ("pmjoin-optimal", {"partitions": "3", "partitioner": "range"}),
}
_CLOSE = 0.001
"""Costs follow from the table by arithmetic; this is the rounding of the printed ones."""


def catalog() -> Catalog:
    """The routers' streams at a site each, a byte a tuple."""
    streams = {
        name: Stream(
            name=name,
            site=f"n{number}",
            time="ts",
            columns={"ts": "timestamp", "dest": "string"},
            source=Source(format="parquet"),
            stats=Stats(bytes=1.0, rates={"dest": by_value}),
        )
        for number, (name, by_value) in enumerate(RATES.items(), start=1)
    }
    return Catalog(path="", sites={f"n{i}": Site() for i in (1, 2, 3)}, streams=streams)


def planned(planner: str, settings: Mapping[str, str]) -> PlannedQuery:
    """The example's plan by a planner."""
    known = catalog()
    query = parse(SQL, name="routers", schemas=known.schemas, times=known.times)
    return make_plan([query], known, PlanOptions(planner, Objective.BYTES, None, settings)).queries[0]


def run(scale: float, tell: Tell) -> Outcome:
    """Plan the example by each scheme."""
    found = {scheme: planned(*how) for scheme, how in SCHEMES.items()}
    cost = {scheme: one.cost for scheme, one in found.items()}
    joined = {
        f"{x} with {y}": (value, RATES[x][value] * RATES[y][value])  # f = 1, and windows of half a second
        for (x, y), by_value in JOINED.items()
        for value in by_value
    }
    wrong = [
        name for name, (value, rate) in joined.items()
        if abs(rate / JOINED[tuple(name.split(" with "))][value] - 1) > _CLOSE  # type: ignore[index]
    ]  # fmt: skip
    by_value = {
        "a": next(j for j in _joins(found[PARTITIONED]) if j == ("n1", ("s1", "s2"))),
    }
    return Outcome(
        NAME,
        "communication cost of three schemes",
        (
            "Three streams at three sites, with the rates of table 1 and windows of 0.5 seconds; a tuple "
            "takes a byte, and a joined one as many as its parts.",
        ),
        (
            *(
                Claim(
                    f"{scheme}: the least cost is {paper:g} bytes a second (criterion: as printed, to its "
                    "last digit)",
                    f"{cost[scheme]:.4g}",
                    abs(cost[scheme] - paper) <= 10 ** -_digits(paper) / 2 + 1e-12,
                )
                for scheme, paper in PAPER.items()
            ),
            Claim(
                "the rates of the joins in table 1 follow from those of the streams (eq. 2; criterion: "
                "within 0.1%)",
                f"{9 - len(wrong)} of 9 do",
                not wrong,
            ),
            Claim(
                "partitioned, dest = a: s2 goes to n1 first, for 0.036 bytes a second in all",
                f"{_cost_of('a'):.3g}; the join of s1 and s2 is at {by_value['a'][0]}",
                abs(_cost_of("a") - 0.036) < 1e-9,
            ),
        ),
        ("scheme", "planner", "bytes a second", "paper"),
        tuple((s, SCHEMES[s][0], c, PAPER.get(s, "")) for s, c in cost.items()),
        (Bars("cost of the schemes", "bytes a second", cost),),
    )


def _cost_of(value: str) -> float:
    """s2 to the site of s1, and the result, of two bytes, to the site of s3."""
    return RATES["s2"][value] + 2 * JOINED["s1", "s2"][value]


def _joins(one: PlannedQuery) -> list[tuple[str, tuple[str, ...]]]:
    aliases = {"a": "s1", "b": "s2", "c": "s3"}
    return [
        (o.site, tuple(aliases[s] for s in o.streams))  # type: ignore[attr-defined]
        for o in one.deployment.operators
        if o.kind == "join"
    ]


def _digits(number: float) -> int:
    """The decimals that a number is printed with.

    >>> _digits(54.03), _digits(100.1)
    (2, 1)
    """
    return len(f"{number:g}".partition(".")[2])

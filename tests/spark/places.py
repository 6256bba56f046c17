"""Places for tests of runs across sites: four streams at four sites, plans, and what a run must give."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.planners.examples import random_sequences
from thalweg.api.inputs import read_catalog, read_queries
from thalweg.cost.price import price
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.one_way import METHODS
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session
from thalweg.storage import Location

from .feed import SECOND, Feed, catalog_yaml, expected, place_of, results_of, written

COLUMNS = {"ts": "timestamp", "k": "bigint", "word": "string", "v": "bigint", "id": "bigint"}
AT = {"a": "n1", "b": "n2", "c": "n3", "d": "n4"}
KEYS = 12
RATE = 4.0

CHAIN = """SELECT a.id AS w, b.id AS x, c.id AS y, d.id AS z, a.k, c.word, d.ts AS at, result_time
FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS], c [RANGE 6 SECONDS], d [RANGE 4 SECONDS]
WHERE a.k = b.k AND b.word = c.word AND c.k = d.k AND a.v <> 3 AND d.id % 7 <> 0 AND a.v + c.v < 12
"""
STAR = """SELECT a.id AS w, b.id AS x, c.id AS y, d.id AS z, a.k, c.word, b.ts AS at, result_time
FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS], c [RANGE 6 SECONDS], d [RANGE 4 SECONDS]
WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND b.v <> 3 AND a.v + d.v < 12
"""

HALF = """SELECT a.id AS w, b.id AS x, c.id AS y, a.k, result_time
FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS], c [RANGE 6 SECONDS]
WHERE a.k = b.k AND b.word = c.word AND a.v <> 3
"""
NARROW = """SELECT a.id AS w, b.id AS x, b.ts AS at
FROM a [RANGE 2 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k AND a.v <> 3 AND a.v > 1
"""
WIDE = CHAIN.replace("a.v <> 3", "a.v <> 4")
OUTER = """SELECT a.id AS w, b.id AS x, c.id AS y, d.id AS z, a.k, c.word, d.ts AS at, result_time
FROM a [RANGE 5 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k
LEFT JOIN c [RANGE 1 SECOND] ON b.word = c.word AND c.v > 1
LEFT JOIN d [RANGE 2 SECONDS] ON c.k = d.k AND d.ts <= c.ts + INTERVAL 1 SECOND
"""
GROUPS = """SELECT TUMBLE(result_time, INTERVAL '10' SECONDS) AS w, a.k, upper(c.word) AS u, count(*) AS n,
  sum(a.v + d.v) AS s, min(d.ts) AS first, max(b.id) AS last, avg(c.v) AS mean, result_time
FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS], c [RANGE 6 SECONDS], d [RANGE 4 SECONDS]
WHERE a.k = b.k AND b.word = c.word AND c.k = d.k AND a.v + c.v < 12
GROUP BY w, a.k, upper(c.word), b.v % 2
"""
DISTINCT = """SELECT DISTINCT TUMBLE_END(result_time, INTERVAL '7' SECONDS) AS e, b.k, c.word
FROM a [RANGE 5 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k
LEFT JOIN c [RANGE 1 SECOND] ON b.word = c.word AND c.v > 1
"""
TWICE = """SELECT a.id AS w, e.id AS x, b.id AS y, c.id AS z, e.ts AS at, result_time
FROM a [RANGE 4 SECONDS], a [RANGE 2 SECONDS] AS e,
b [RANGE 3 SECONDS], c [RANGE 3 SECONDS], d [RANGE 1 SECOND]
WHERE a.k = b.k AND b.word = c.word AND e.k = c.k AND e.v < 7 AND a.v <> 3 AND d.k = c.k
"""
WINDOWS = {
    "rows": {"a [RANGE 5 SECONDS]": "a [ROWS 12]", "c [RANGE 6 SECONDS]": "c [ROWS 20]"},
    "slide": {"b [RANGE 3 SECONDS]": "b [RANGE 3 SECONDS SLIDE 2 SECONDS]"},
    "both": {
        "b [RANGE 3 SECONDS]": "b [ROWS 9]",
        "d [RANGE 4 SECONDS]": "d [RANGE 4 SECONDS SLIDE 7 SECONDS]",
    },
    "unbounded": {"a [RANGE 5 SECONDS]": "a [UNBOUNDED]", "d.id % 7 <> 0": "d.id % 7 = 1"},
}


def with_windows(sql: str, name: str) -> str:
    """A query with other windows."""
    for old, new in WINDOWS[name].items():
        sql = sql.replace(old, new)
    return sql


def batches(
    rng: random.Random, count: int, size: int, seconds: float, often: Sequence[int]
) -> list[list[dict[str, Any]]]:
    """Rows out of order, some at the same moment, some too late, without a time, or without keys.

    Half of them have one of the keys that come `often`.
    """
    made = []
    for n in range(count):
        batch = []
        for i in range(size):
            ts = (n + rng.random()) * seconds / count + rng.choice([0, 0, 0, -2])
            ts = round(ts * 4) * SECOND // 4 - (25 * SECOND if rng.random() < 0.05 else 0)
            row = {"ts": None if rng.random() < 0.02 else ts, "v": rng.randrange(10), "id": n * size + i}
            row["k"] = None if rng.random() < 0.04 else rng.choice(rng.choice((often, range(KEYS))))
            row["word"] = None if rng.random() < 0.04 else "w" * (rng.randrange(KEYS) % 3) + str(row["v"])
            batch.append(row)
        made.append(batch)
    return made


@dataclass
class Place:
    """A folder with streams, their catalog, and queries by name."""

    root: Path
    feeds: dict[str, Feed]
    queries: dict[str, str]
    at: Mapping[str, str] = field(default_factory=lambda: AT)

    def expected(self, query: str = "q") -> Counter:
        return expected(self.queries[query], self.feeds)

    def run(self, *more: object, out: str = "out") -> list[object]:
        """The arguments of a run of all queries to the end."""
        files = [f"{name}.sql" for name in self.queries]
        return ["run", *files, "--catalog", "catalog.yaml", "--out", out, "--once", "--json", *more]

    def read(self):
        catalog = read_catalog(self.root / "catalog.yaml")
        return catalog, read_queries([self.root / f"{name}.sql" for name in self.queries], catalog)

    def by_sequences(self, path: str, methods: Sequence[str] = METHODS, seed: int = 0) -> str:
        """Save a plan of probe sequences in random order that go through the methods in turn."""
        catalog, queries = self.read()
        rng, turn = random.Random(seed), cycle(methods)
        session = Session(catalog, PlanOptions("linear-optimal", Objective("bytes"), None, {}))
        made = []
        for query in queries:
            problem = session.problem(query)
            deployment = random_sequences(problem, rng, lambda: next(turn))
            cost = price(deployment, session.network, session.model)
            made.append(PlannedQuery(query.name, query.text, "by hand", cost, cost, 1, 0.0, (), deployment))
        Plan("bytes", tuple(made)).save(self.root / path)
        return path


def stats(often: Sequence[int]) -> str:
    """What the catalog says of a stream; without keys that come often it does not name any."""
    if not often:
        return f"{{rate: {RATE}, distinct: {{k: {KEYS}, word: {KEYS}}}, widths: {{word: 6}}}}"
    rates = {k: RATE / 2 / KEYS + (RATE / 2 / len(often) if k in often else 0) for k in range(KEYS)}
    return f"{{rates: {{k: {json.dumps(rates).replace(chr(34), '')}}}, widths: {{word: 6}}}}"


def place(
    root: Path,
    queries: Mapping[str, str] | str = CHAIN,
    *,
    seed: int = 0,
    count: int = 4,
    size: int = 60,
    seconds: float = 60.0,
    at: Mapping[str, str] = AT,
    skewed: bool = False,
    more: str = "",
) -> Place:
    """Four streams of a few files each, at the sites given; `skewed`: each has keys that come more often."""
    rng = random.Random(seed)
    often = {name: range(3 * n, 3 * n + 3) if skewed else () for n, name in enumerate("abcd")}
    feeds = {
        name: Feed(
            {**COLUMNS, "k": "int"} if name == "b" else COLUMNS,  # numbers compare by value
            batches(rng, count, size, seconds, often[name] or range(KEYS)),
            lateness=6 * SECOND,
            order=("id",),
            extra={"stats": stats(often[name])},
        )
        for name in "abcd"
    }
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds, at=at, more=more))
    named = {"q": queries} if isinstance(queries, str) else dict(queries)
    for name, text in named.items():
        (root / f"{name}.sql").write_text(text)
    return Place(root, feeds, named, at)


def check_complete(place: Place, metrics: Mapping[str, Any], command, out: str = "out") -> None:
    """The run has all results once, says so, and has counted right."""
    folder = place_of(out, place.root)
    assert metrics["complete"] is True
    assert not metrics["shipped"] or metrics["central_payload_bytes"] > 0
    assert metrics == json.loads((folder / "metrics.json").read_text())
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in place.feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in place.feeds.items()}
    assert all(metrics["late_rows"].values())
    for name in place.queries:
        wanted = place.expected(name)
        assert wanted
        found = results_of(folder, name)
        assert found == wanted, f"missing {len(wanted - found)}, extra {len(found - wanted)}"
        assert metrics["output_rows"][name] == sum(wanted.values())
        code, said, err = command(
            "verify", f"{name}.sql", "--catalog", "catalog.yaml", "--out", out, "--json", cwd=place.root
        )
        assert code == 0, err
        assert json.loads(said)["same"] is True
    changes = folder / "_thalweg" / "changes.json"
    moved = changes.exists() and any(r["change"] for r in json.loads(changes.read_text()))
    check_shipped(metrics, json.loads((folder / "plan.json").read_text()), moved=moved)


def check_shipped(metrics: Mapping[str, Any], plan: Mapping[str, Any], *, moved: bool = False) -> None:
    """What was shipped went over the ways of the plan, and only between different sites.

    If it has moved, it went over other ways as well.
    """
    edges = [e for q in plan["queries"] for e in q["deployment"]["edges"]]
    ways = {(e["from_site"], e["to_site"]) for e in edges if e["from_site"] != e["to_site"]}
    shipped = {(s["from"], s["to"]): s for s in metrics["shipped"]}
    assert len(shipped) == len(metrics["shipped"])
    assert shipped.keys() >= ways if moved else shipped.keys() == ways
    for one in shipped.values():
        assert one["bytes"] > 0
        assert one["tuples"] >= 0
        assert (one["payload_bytes"] > 0) == (one["tuples"] > 0)
    assert not ways or sum(s["payload_bytes"] for s in shipped.values()) > 0


def unread(out: Location) -> list[Location]:
    """The files of parcels that are on their way: no batch of the run has planned to read them."""
    own = out / "_thalweg"
    planned = sorted((int(p.name), p) for p in (own / "checkpoint" / "offsets").glob("[0-9]*"))
    read: dict[str, int] = {}
    for line in planned[-1][1].read_text().splitlines() if planned else ():
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and all("-" in name or name == "control" for name in said):
                read |= said
    files = sorted((own / "exchange").glob("*-*/*.parcels"))
    return [f for f in files if int(f.stem) > read.get(f.parent.name, 0)]

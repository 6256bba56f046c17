"""Random queries, and random changes of their streams' statistics."""

import random

from tests.planners.examples import catalog, links, query, stream
from thalweg.catalog.model import Costs, Link, Links
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import Session

WINDOWS = ("RANGE 500 MILLISECONDS", "RANGE 5 SECONDS", "RANGE 100 MILLISECONDS", "ROWS 20")
COLUMNS = {"x": "long", "y": "long", "p": "string"}


def stats(rng):
    """Few different values, so that equal costs occur."""
    found = {
        "rate": rng.choice([50, 100, 100, 200, 1000]),
        "distinct": {c: float(rng.choice([10, 100, 100, 1000])) for c in "xy"},
    }
    if rng.random() < 0.5:
        found["bytes"] = rng.choice([20, 150, 150, 600])
    else:
        found["widths"] = {"p": rng.choice([1, 100])}
    return found


class Case:
    """A query of 3 to 8 streams, each at a site of its own or not; `change` gives some other statistics."""

    def __init__(self, seed, most=8):
        self.rng = rng = random.Random(seed)
        self.count = rng.randint(3, most)
        self.shape = rng.choice(["star", "chain", "hub"])
        self.objective = rng.choice([Objective.TIME, Objective.TIME, *Objective])
        shared = rng.random() < 0.2
        self.at = [f"n{rng.randrange(self.count) if shared else i}" for i in range(self.count)]
        self.sites = [f"n{i}" for i in range(self.count)] + ["n_out"]
        self.deliver_to = rng.choice([None, "n_out", "n0"])
        self.costs = Costs(probe_s=rng.choice([1e-7, 1e-5]), interval_s=rng.choice([0.1, 1]))
        self.links = self._links()
        self.windows = [rng.choice(WINDOWS) for _ in range(self.count)]
        self.stats = [stats(rng) for _ in range(self.count)]
        self.read = [*range(self.count)]
        if rng.random() < 0.15:  # one stream under two aliases
            self.read[-1] = 0
        pairs = [(i, j) for j in range(self.count) for i in range(j)]
        self.joins = {p: 0.01 for p in pairs if rng.random() < 0.1}

    def _links(self):
        rng = self.rng
        if rng.random() < 0.6:
            return Links(default=Link(latency_ms=5, mbps=1.024, usd_per_gb=0.1))
        pairs = [(a, b) for b in self.sites for a in self.sites if a < b]
        return links({p: (rng.uniform(0, 50), rng.choice([1, 10]), rng.uniform(0, 1)) for p in pairs})

    def problem(self):
        streams = [stream(f"s{i}", self.at[i], COLUMNS, **self.stats[i]) for i in range(self.count)]
        left, right = ("y", "x") if self.shape == "chain" else ("x", "x")
        joins = [(f"s{i}.{left}", f"s{j}.{right}", f) for (i, j), f in self.joins.items()]
        known = catalog(streams, self.sites, joins, self.links, costs=self.costs)
        ends = [(0 if self.shape == "hub" else i - 1, i) for i in range(1, self.count)]
        if self.shape == "hub":  # the first stream has two keys
            where = [f"a0.{'y' if j % 2 else 'x'} = a{j}.x" for _, j in ends]
        else:
            where = [f"a{i}.{left} = a{j}.{right}" for i, j in ends]
        froms = ", ".join(
            f"s{s} [{w}] AS a{i}" for i, (s, w) in enumerate(zip(self.read, self.windows, strict=True))
        )
        sql = f"SELECT a0.p FROM {froms} WHERE {' AND '.join(where)}"
        session = Session(known, PlanOptions("linear-greedy", self.objective, self.deliver_to))
        return session.problem(query(sql, known))

    def change(self):
        """One to three streams get another rate, selectivity, tuple size or window."""
        rng = self.rng
        for i in rng.sample(range(self.count), rng.choice([1, 1, 2, 3])):
            new, kind = stats(rng), rng.randrange(5)
            if kind == 0:
                self.stats[i] = {**self.stats[i], "rate": new["rate"]}
            elif kind == 1:
                self.stats[i] = {**self.stats[i], "distinct": new["distinct"]}
            elif kind == 2:
                self.windows[i] = rng.choice(WINDOWS)
            else:
                self.stats[i] = new
        for pair in list(self.joins):
            if rng.random() < 0.2:
                self.joins[pair] = rng.choice([0.001, 0.01, 0.1])
            elif rng.random() < 0.1:
                del self.joins[pair]

"""All planners in one table, and planning by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from thalweg.catalog.model import Catalog
from thalweg.cost.network import Network
from thalweg.cost.objectives import MODELS
from thalweg.cost.price import price
from thalweg.cost.rates import Rates
from thalweg.cost.stats import Statistics
from thalweg.errors import UserError
from thalweg.plan.deployment import Deployment
from thalweg.plan.document import Plan, PlannedQuery
from thalweg.plan.operators import Sink
from thalweg.plan.options import PlanOptions
from thalweg.plan.outer import lone
from thalweg.planners.search.outer import deploy_outer
from thalweg.planners.search.partition import PARTITIONERS
from thalweg.planners.search.problem import Found, NotApplicableError, Problem
from thalweg.planners.search.reuse import Deployed
from thalweg.planners.search.split import AUTO, MODES, split_joins
from thalweg.query.model import Query

NUMBER = ("a number or a list",)
"""A setting whose value the planner itself checks."""


Plans = Callable[[Problem], Found]


@dataclass(frozen=True)
class Planner:
    """A planner; `settings` are its `--set` keys with the values of each."""

    name: str
    family: str
    paper: str
    summary: str
    load: Callable[[], Plans]
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def plan(self) -> Plans:
        """The function that plans. Its module is imported now: most commands use few planners."""
        return self.load()


def _module(name: str) -> Callable[[], Plans]:
    def load() -> Plans:
        plan: Plans = import_module(f"thalweg.planners.{name}").plan
        return plan

    return load


_WIDTH = {"width": ("columns", "equal")}
_SPLIT = {"split": MODES}
"""Of planners that make N-way joins."""

_TREE = {**_WIDTH, **_SPLIT}

_PARTS = {
    **_TREE,
    "partitions": NUMBER,
    "partitioner": PARTITIONERS,
    "selection": ("heuristic", "random", "alternative"),
}

_LINEAR = {**_WIDTH, "price": ("shared", "additive")}
_METHODS = {**_LINEAR, "methods": NUMBER, "formulas": ("own", "printed")}

_CLUSTERS = {**_TREE, "max_cs": NUMBER}

PLANNERS: tuple[Planner, ...] = (
    Planner(
        "auto", "any", "-", "the cheapest plan that the others find in the time allowed",
        _module("auto"), {**_TREE, "seconds": NUMBER, **_PARTS, **_CLUSTERS},
    ),
    Planner(
        "local", "tree", "mjoin", "N-way joins at the one site where all streams arise",
        _module("local"), _TREE,
    ),
    Planner(
        "simple", "tree", "pmjoin", "ships all to the site of the fastest stream", _module("simple"), _TREE,
    ),
    Planner(
        "streamjoinopt", "tree", "pmjoin", "greedy: the slowest goes where it costs least (Algorithm 1)",
        _module("streamjoinopt"), {**_TREE, "local": ("reducing", "always")},
    ),
    Planner(
        "exhaustive", "tree", "integrated", "every tree at every placement; for small problems",
        _module("exhaustive"), _TREE,
    ),
    Planner(
        "top-down", "tree", "integrated", "plans on cluster representatives, then within each cluster",
        _module("top_down"), _CLUSTERS,
    ),
    Planner(
        "bottom-up", "tree", "integrated", "joins the available streams, from the sink's cluster upwards",
        _module("bottom_up"), _CLUSTERS,
    ),
    Planner(
        "npc", "tree", "integrated", "bottom-up that waits a level where joining now seems dearer",
        _module("npc"), _CLUSTERS,
    ),
    Planner(
        "plan-then-deploy", "tree", "integrated", "the best tree by rates alone, then its best placement",
        _module("plan_then_deploy"), _TREE,
    ),
    Planner(
        "in-network", "tree", "integrated", "the best tree by rates alone, each join placed within a zone",
        _module("in_network"), {**_TREE, "zones": NUMBER},
    ),
    Planner(
        "relaxation", "tree", "integrated", "the best tree by rates alone, placed by springs in a cost space",
        _module("relaxation"), {**_TREE, "iterations": NUMBER},
    ),
    Planner(
        "optimal", "tree", "-", "the cheapest tree over the whole network, exactly, with reuse",
        _module("optimal"), _TREE,
    ),
    Planner(
        "pmjoin", "partitioned", "pmjoin", "a plan of its own for each part of the key space, greedy",
        _module("pmjoin"), _PARTS,
    ),
    Planner(
        "pmjoin-optimal", "partitioned", "pmjoin", "the cheapest tree for each part of the key space",
        _module("pmjoin_optimal"), _PARTS,
    ),
    Planner(
        "linear-greedy", "linear", "adaptive", "greedy probe sequences of simple joins (Algorithm 1)",
        _module("linear_greedy"), _LINEAR,
    ),
    Planner(
        "semijoin-greedy", "linear", "semijoin", "greedy probe sequences by eight methods (Algorithm 10)",
        _module("semijoin_greedy"), _METHODS,
    ),
    Planner(
        "semijoin-exhaustive", "linear", "semijoin", "all probe sequences by all methods; up to 5 streams",
        _module("semijoin_exhaustive"), _METHODS,
    ),
    Planner(
        "linear-optimal", "linear", "-", "the cheapest probe sequences, by dynamic programming",
        _module("linear_optimal"), _METHODS,
    ),
)  # fmt: skip


def planner(name: str) -> Planner:
    """The planner of that name."""
    found = next((p for p in PLANNERS if p.name == name), None)
    if found is None:
        raise UserError(
            f"there is no planner {name!r}", remedy=f"there are {', '.join(p.name for p in PLANNERS)}"
        )
    return found


@dataclass
class Session:
    """Queries deployed one after another, each of which can reuse those before it."""

    catalog: Catalog
    options: PlanOptions
    deployed: Deployed = field(default_factory=Deployed)

    def __post_init__(self) -> None:
        self.model = MODELS[str(self.options.objective)]
        self.network = Network.of(self.catalog, self.model)
        target = self.options.deliver_to
        if target is not None and target not in self.catalog.sites:
            raise UserError(
                f"there is no site {target!r} to deliver to",
                remedy=f"the catalog has {', '.join(self.catalog.sites)}",
            )

    def problem(self, query: Query) -> Problem:
        """The planning problem of a query's inner part, with the queries deployed before it."""
        asked = query.inner_part if len(query.inner) > 1 else query.as_inner
        every = self._rates(query.as_inner)
        target = self.options.deliver_to
        self.network.check_paths(every.sites, target)
        return Problem(
            asked, self.catalog, self.model, self.network, self._rates(asked) if query.outer else every,
            self.deployed, None if query.outer else target, self.options.settings, self.options.limit_s,
            bool(query.outer),
        )  # fmt: skip

    def _rates(self, query: Query) -> Rates:
        equal = self.options.settings.get("width") == "equal"
        return Rates.of(query, Statistics(self.catalog), equal_width=equal)

    def _found(self, query: Query, problem: Problem, plan: Plans) -> tuple[Found, Deployment]:
        """The plan of the inner part, and that of the whole query."""
        if len(query.inner) > 1:
            found = plan(problem)
        else:
            found = Found(lone(query, self.catalog.streams[query.inputs[0].stream].site), 1)
        if not query.outer:
            return found, found.deployment
        rates = self._rates(query.as_inner)
        problem.rates.statistics.assumed.update(rates.statistics.assumed)
        whole = deploy_outer(query, found.deployment, rates, self.network, self.options.deliver_to)
        return found, whole

    def _meeting(self, query: Query, problem: Problem, plan: Plans) -> tuple[Found, Deployment]:
        """The same; the results of groups all end at one site, of those where they arise the cheapest."""
        found, whole = self._found(query, problem, plan)
        ends = [o.site for o in whole.operators if isinstance(o, Sink)]
        if query.groups is None or len(ends) == 1:
            return found, whole
        there = [self._found(query, replace(problem, deliver_to=site), plan) for site in dict.fromkeys(ends)]
        return min(there, key=lambda one: price(one[1], self.network, self.model))

    def deploy(self, query: Query, chosen: Planner) -> PlannedQuery:
        """Plans a query and adds it to the deployed ones."""
        plan = chosen.plan  # loaded before the clock starts
        start = time.perf_counter()
        problem = self.problem(query)
        found, whole = self._meeting(query, problem, plan)
        elapsed_ms = round((time.perf_counter() - start) * 1000, 3)
        marginal = price(whole, self.network, self.model)
        if marginal == float("inf"):
            raise NotApplicableError(
                f"{found.planner or chosen.name} ships where no path leads",
                remedy="optimal finds what can be reached",
            )
        if found.cost is not None:
            marginal = found.cost
        cost = marginal + self._reused(found.deployment)
        if len(query.inner) > 1:
            self.deployed.add(problem.query, found.deployment, problem.rates)
        return PlannedQuery(
            query.name, query.text, found.planner or chosen.name, cost, marginal, found.searched, elapsed_ms,
            tuple(problem.rates.statistics.assumed), whole, query.warnings,
        )  # fmt: skip

    def _reused(self, deployment: Deployment) -> float:
        """The cost of the outputs that a deployment reuses."""
        number = self.network.number
        shipped = sum(
            self.network.cost(number[e.source_site], number[e.target_site], e.bytes_per_s)
            for e in self.deployed.upstream(deployment.operators).values()
        )
        return shipped + (self.deployed.work(deployment) if self.model.work else 0.0)


def make_plan(queries: Sequence[Query], catalog: Catalog, options: PlanOptions) -> Plan:
    """Deploys the queries in order, each by the chosen planner."""
    chosen = planner(options.planner)
    check_settings(chosen, options.settings)
    session = Session(catalog, options)
    planned = [session.deploy(q, chosen) for q in queries]
    # Joins are split once all queries are planned: reuse is the same either way.
    mode = options.settings.get("split", AUTO)
    split = (
        replace(p, deployment=split_joins(session.problem(q), p.deployment, mode)) if len(q.inner) > 1 else p
        for q, p in zip(queries, planned, strict=True)
    )
    return Plan(str(options.objective), tuple(split))


def check_settings(chosen: Planner, settings: Mapping[str, str]) -> None:
    """Refuses settings that the planner does not take."""
    for key, value in settings.items():
        if key not in chosen.settings:
            known = ", ".join(chosen.settings) or "none"
            raise UserError(f"planner {chosen.name!r} takes no setting {key!r}", remedy=f"it takes: {known}")
        if chosen.settings[key] != NUMBER and value not in chosen.settings[key]:
            raise UserError(
                f"setting {key!r} can't be {value!r}",
                remedy=f"it is one of {', '.join(chosen.settings[key])}",
            )

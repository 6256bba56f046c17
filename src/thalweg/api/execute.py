"""A run in this process, from its options to its end: for the command, and for `thalweg.run`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import permutations
from math import isfinite
from typing import TYPE_CHECKING, Any

from thalweg.api.inputs import (
    CatalogInput,
    QueriesInput,
    check_sinks,
    plan_options,
    read_catalog,
    read_queries,
    take_plan,
)
from thalweg.errors import Stopped, UserError
from thalweg.plan.options import Adapt
from thalweg.storage import Location, location

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog
    from thalweg.plan.document import Plan
    from thalweg.plan.options import Emulated, Memory, PlanOptions, Reporter, RunOptions

_PICTURE = "network.svg"


def prepared(
    queries: QueriesInput,
    catalog: CatalogInput,
    out: str | os.PathLike[str],
    *,
    planner: str = "auto",
    objective: str = "bytes",
    deliver_to: str | None = None,
    settings: Mapping[str, Any] | None = None,
    plan: str | os.PathLike[str] | Plan | None = None,
    once: bool = False,
    master: str | None = None,
    emulate: bool = False,
    jitter: float = 0.0,
    memory_budget: int | str | None = None,
    spill_delay: str | None = None,
    compact: bool = True,
    adapt: str | None = None,
) -> RunOptions:
    """The checked options of a run, with its plan."""
    from thalweg.adapt.decide import check_for_nodes
    from thalweg.plan.options import RunOptions

    who = _adapt(adapt)
    if who is Adapt.DISTRIBUTED and plan is None:
        planner = _for_nodes(planner)
    wanted = plan_options(planner, objective, deliver_to, settings)
    read = read_catalog(catalog)
    if isinstance(queries, Iterator):  # looked at twice
        queries = list(queries)
    parsed = read_queries(queries, read)
    check_sinks(read, queries)
    fixed = next((q for q in parsed if q.stays), None)
    if fixed is not None and who not in (None, Adapt.OFF):
        raise UserError(
            f"query {fixed.name} has {fixed.stays}, so its plan can't change",
            where=f"--adapt {who}",
            remedy="leave --adapt out",
        )
    at = location(out)
    if at.exists() and not at.is_dir():
        raise UserError("this is not a folder", where=str(at), remedy="give --out a folder or a new name")
    made = take_plan(parsed, read, plan, wanted)
    if plan is not None:
        who, wanted = who or Adapt.OFF, _as_planned(made)
    if who is Adapt.DISTRIBUTED:
        check_for_nodes(made, str(plan))
    memory = _memory(memory_budget, spill_delay)
    options = RunOptions(parsed, read, made, at, once, master, (), memory, compact, who, wanted)
    return replace(options, emulated=_emulated(options, emulate, jitter))


def cautions(options: RunOptions) -> Iterator[str]:
    """What the user should know before the run begins."""
    from thalweg.plan.operators import Join

    for operator in (o for q in options.plan.queries for o in q.deployment.operators):
        if isinstance(operator, Join) and operator.warning:
            yield f"{operator.id} {operator.warning}"
    for query in options.queries:
        yield from (f"query {query.name}: {warning}" for warning in query.warnings)


@contextmanager
def page_of(out: Location, port: int | None) -> Iterator[str | None]:
    """The address of the page of a run, if it is asked for; it is there while the run goes on.

    Port 0 is the first free one of the usual ports.
    """
    if port is None:
        yield None
        return
    from thalweg.page.serve import Access, beside

    with beside(out, Access(port=port or None)) as url:
        yield url


@dataclass(frozen=True)
class Ended:
    """How a run has ended: its counts, what stopped it early, the picture of its traffic, and notes."""

    metrics: Mapping[str, Any]
    stopped: Stopped | None
    picture: Location | None
    notes: tuple[str, ...]


def execute(options: RunOptions, reporter: Reporter) -> Ended:
    """Runs until the sources are exhausted, or this process is told to stop."""
    from thalweg.spark.run import run as run_on_spark

    was_complete, stopped = _is_complete(options.out), None
    try:
        metrics: Mapping[str, Any] = run_on_spark(options, reporter)
    except Stopped as early:
        metrics, stopped = early.metrics, early
    finally:
        reporter.close()
    notes = [*_over_budget(metrics, options.memory)]
    picture = None
    # A complete run is left alone, unless it was killed before it drew its picture.
    left_alone = len(options.plan.sites) == 1 or (was_complete and (options.out / _PICTURE).exists())
    if not left_alone:
        try:
            picture = _draw(options.out, options.catalog)
        except UserError as error:  # this does not fail the run
            notes.append(f"no picture: {error}")
    return Ended(metrics, stopped, picture, tuple(notes))


def _adapt(name: str | None) -> Adapt | None:
    if name is not None and name not in list(Adapt):
        raise UserError(f"{name!r} can't change a plan", where="adapt", remedy=f"choose {', '.join(Adapt)}")
    return None if name is None else Adapt(name)


def _for_nodes(planner: str) -> str:
    """The planner whose plans the nodes change by themselves."""
    if planner not in ("auto", "linear-greedy"):
        raise UserError(
            f"nodes can't change a plan of {planner} by themselves, only one of linear-greedy",
            where="--adapt distributed",
            remedy="leave --planner out, or use --adapt central",
        )
    return "linear-greedy"


def _memory(budget: int | str | None, delay: str | None) -> Memory | None:
    from thalweg.plan.options import Memory
    from thalweg.units import parse_duration, parse_size

    if budget is None:
        if delay is not None:
            raise UserError("--spill-delay needs --memory-budget", where="--spill-delay")
        return None
    size = parse_size(str(budget), where="--memory-budget")
    return Memory(size, parse_duration("10 seconds" if delay is None else delay, where="--spill-delay"))


def _over_budget(metrics: Mapping[str, Any], memory: Memory | None) -> Iterator[str]:
    """Windows can exceed the budget: each join needs a minimum."""
    from thalweg.units import size_text

    took = metrics.get("windows", {}).get("memory_bytes", 0)
    if memory is not None and took > memory.budget:
        yield (
            f"windows took {size_text(took)} in memory, more than the budget of {size_text(memory.budget)}: "
            "each join keeps its smallest windows, the tuples of a batch and some keys in memory"
        )


def _as_planned(plan: Plan) -> PlanOptions:
    """How to look for other plans than the one that was given: for the same cost, for the same site."""
    from thalweg.plan.operators import Sink
    from thalweg.plan.options import Objective, PlanOptions

    sinks = {o.site for q in plan.queries for o in q.deployment.operators if isinstance(o, Sink)}
    return PlanOptions("auto", Objective(plan.objective), sinks.pop() if len(sinks) == 1 else None)


def _emulated(options: RunOptions, links: bool, jitter_s: float) -> tuple[Emulated, ...]:
    """The emulated delays for each pair of sites that a plan may use. A path is as slow as all its links."""
    from thalweg.cost.network import way
    from thalweg.plan.options import Emulated

    if not isfinite(jitter_s) or jitter_s < 0:
        raise UserError(f"{jitter_s} is not a duration", where="--jitter", remedy="give a number of seconds")
    if not links and not jitter_s:
        return ()
    edges = [e for q in options.plan.queries for e in q.deployment.edges]
    used = dict.fromkeys((e.source_site, e.target_site) for e in edges if e.source_site != e.target_site)
    if options.adapts is not Adapt.OFF:
        used = dict.fromkeys(permutations(options.catalog.sites, 2))
    found = []
    for source, target in used:
        try:
            latency_s, bytes_per_s = way(options.catalog, source, target) if links else (0.0, None)
        except UserError:  # no plan uses it, as no path leads there
            continue
        found.append(Emulated(source, target, latency_s, bytes_per_s, jitter_s))
    return tuple(found)


def _is_complete(out: Location) -> bool:
    try:
        return bool(json.loads((out / "metrics.json").read_text(encoding="utf-8"))["complete"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _draw(out: Location, catalog: Catalog) -> Location:
    """Draws the traffic between sites."""
    from thalweg.report import flow

    flow.draw(flow.Flow.read_from(out), catalog, out / _PICTURE)
    return out / _PICTURE

"""`thalweg.plan`: queries in, a plan and its cost out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.api.drawn import Drawn
from thalweg.api.inputs import CatalogInput, QueriesInput, plan_options, read_catalog, read_queries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thalweg.catalog.model import Catalog
    from thalweg.plan.document import Plan, PlannedQuery


@dataclass(frozen=True, repr=False)
class Planned(Drawn):
    """A plan, and the catalog that it is for. A notebook shows it as a map."""

    plan: Plan
    catalog: Catalog

    @property
    def objective(self) -> str:
        """The cost that was minimized."""
        return self.plan.objective

    @property
    def total(self) -> float:
        """What the queries add to each other, in all."""
        return self.plan.total

    @property
    def queries(self) -> tuple[PlannedQuery, ...]:
        """How each query is deployed, and at what cost."""
        return self.plan.queries

    def to_json(self) -> dict[str, Any]:
        """The JSON of `thalweg plan`."""
        return self.plan.to_json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan to a file, for `thalweg run --plan`."""
        self.plan.save(Path(path))

    def text(self, *, verbose: bool = False) -> str:
        """What `thalweg plan` prints."""
        from thalweg.report.listing import lines

        return "\n".join(lines(self.plan, verbose=verbose))

    def figure(self) -> Figure:
        """The map: sites, their operators, and what flows between them."""
        from thalweg.report import map as map_

        return map_.figure(self.plan, self.catalog)


def plan(
    queries: QueriesInput,
    catalog: CatalogInput,
    *,
    planner: str = "auto",
    objective: str = "bytes",
    deliver_to: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Planned:
    """Plan queries: the deployment and its cost.

    `queries` is a file, or a text that begins with SELECT; several are a list, or a dict by name. `catalog`
    is a file, a text, or a dict. `settings` are those of the planner, as `thalweg planners` lists them.
    """
    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    options = plan_options(planner, objective, deliver_to, settings)

    from thalweg.planners.table import make_plan  # late, so that errors in the input are reported fast

    return Planned(make_plan(parsed, read, options), read)

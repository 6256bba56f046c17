"""`thalweg.compare`: all planners side by side on the same queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from thalweg.api.drawn import Drawn
from thalweg.api.inputs import CatalogInput, QueriesInput, plan_options, read_catalog, read_queries
from thalweg.errors import UserError
from thalweg.planners import compare as planners

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Comparison(Drawn, planners.Comparison):
    """The plans of all planners. A notebook shows it as a bar chart."""

    def text(self) -> str:
        """What `thalweg compare` prints."""
        from thalweg.report import tables

        return tables.text(tables.compared(self))

    def figure(self) -> Figure:
        """The bar chart: a bar for each planner, by family."""
        from thalweg.report import bars

        return bars.figure(self)


def compare(
    queries: QueriesInput,
    catalog: CatalogInput,
    *,
    objective: str = "bytes",
    deliver_to: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seconds: float = 10.0,
    begins: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Plan the same queries with every planner and compare the costs.

    Each planner may take so many `seconds`; a setting is passed to every planner that has it. `begins` is
    called with the name of each planner. `queries` and `catalog` are as for `plan`.
    """
    if not (isfinite(seconds) and seconds >= 0):
        raise UserError(f"a planner can't take {seconds} seconds", remedy="give a number from 0 on")
    read = read_catalog(catalog)
    options = replace(plan_options("auto", objective, deliver_to, settings), limit_s=seconds)
    done = planners.compare(read_queries(queries, read), read, options, begins)
    return Comparison(**{one.name: getattr(done, one.name) for one in fields(done)})

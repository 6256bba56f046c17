"""What a cost model is; each is in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thalweg.catalog.model import Costs, Link


@dataclass(frozen=True)
class Model:
    """How a plan is priced.

    `link` gives what one link costs: a part that any shipment over it pays, and a part for each byte a
    second. With `once`, a shipment between two sites costs the same however many links it crosses. With
    `work`, the operators' own seconds of work a second are added.
    """

    name: str
    unit: str
    link: Callable[[Link, Costs], tuple[float, float]]
    once: bool = False
    work: bool = False

"""The model of a catalog: sites, links, streams and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveAmount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Microseconds = Annotated[int, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Site(_Model):
    """A place where streams arise and operators run."""


class Link(_Model):
    """The cost of sending data from one site to another; without `mbps` there is no limit."""

    latency_ms: Amount = 1.0
    mbps: PositiveAmount | None = None
    usd_per_gb: Amount = 0.0


class Links(_Model):
    """The network: directed links by (from, to), and the link between any two sites not named there.

    >>> Links().between("n1", "n2")
    Link(latency_ms=1.0, mbps=None, usd_per_gb=0.0)
    """

    default: Link | None = Link()
    pairs: Mapping[tuple[str, str], Link] = {}

    def between(self, source: str, target: str) -> Link | None:
        """The link that leads straight from one site to another; None where there is none."""
        return None if source == target else self.pairs.get((source, target), self.default)


class Source(_Model):
    """A Spark streaming source; relative paths are already resolved against the catalog's folder."""

    format: str
    options: Mapping[str, str] = {}


class Stats(_Model):
    """Declared statistics of a stream; a missing one is assumed later, never zero."""

    rate: Amount | None = None
    bytes: Amount | None = None
    widths: Mapping[str, Amount] = {}
    distinct: Mapping[str, PositiveAmount] = {}
    rates: Mapping[str, Mapping[Any, Amount]] = {}


class Stream(_Model):
    """A stream and the site where it arises. Durations are in microseconds."""

    name: str
    site: str
    time: str
    order: tuple[str, ...] = ()
    lateness: Microseconds = 10_000_000
    idle: Microseconds | None = None
    max_ahead: Microseconds | None = None
    columns: Mapping[str, str]  # name -> Spark SQL type name, in order
    source: Source
    stats: Stats = Stats()

    @model_validator(mode="after")
    def _columns_exist(self) -> Stream:
        named = {self.time, *self.order, *self.stats.widths, *self.stats.distinct, *self.stats.rates}
        if missing := sorted(named - set(self.columns)):
            raise ValueError(f"stream {self.name} has no column {', '.join(missing)}")
        return self


class JoinSelectivity(_Model):
    """The share of all pairs of two streams' tuples that match on two columns, each (stream, column)."""

    left: tuple[str, str]
    right: tuple[str, str]
    selectivity: Annotated[float, Field(ge=0, le=1)]


class Costs(_Model):
    """The time model: seconds per probe, update, insert and hash (c_p, c_u, c_i, c_h), and tau."""

    probe_s: Amount = 1e-7
    update_s: Amount = 1e-7
    insert_s: Amount = 1e-7
    hash_s: Amount = 1e-7
    interval_s: PositiveAmount = 0.1


class Catalog(_Model):
    """All that a query and its plan may refer to; `path` is the file it was read from."""

    path: str
    sites: Mapping[str, Site]
    streams: Mapping[str, Stream]
    links: Links = Links()
    joins: tuple[JoinSelectivity, ...] = ()
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _names_exist(self) -> Catalog:
        used = {s.site for s in self.streams.values()} | {n for pair in self.links.pairs for n in pair}
        if missing := sorted(used - set(self.sites)):
            raise ValueError(f"there is no site {', '.join(missing)}")
        for stream, column in (side for join in self.joins for side in (join.left, join.right)):
            if stream not in self.streams or column not in self.streams[stream].columns:
                raise ValueError(f"there is no column {stream}.{column}")
        return self

    @property
    def schemas(self) -> dict[str, Mapping[str, str]]:
        """Every stream's columns and their types, as `thalweg.query.parse` takes them."""
        return {name: stream.columns for name, stream in self.streams.items()}

    @property
    def times(self) -> dict[str, str]:
        """Every stream's time column."""
        return {name: stream.time for name, stream in self.streams.items()}

    def selectivity(self, left: tuple[str, str], right: tuple[str, str]) -> float | None:
        """The declared selectivity of an equality of two (stream, column)s, whichever way round."""
        return selectivity_of(self.joins, left, right)


def selectivity_of(
    joins: Iterable[JoinSelectivity], left: tuple[str, str], right: tuple[str, str]
) -> float | None:
    """The first selectivity of an equality of two (stream, column)s, whichever way round."""
    for join in joins:
        if (join.left, join.right) in ((left, right), (right, left)):
            return join.selectivity
    return None

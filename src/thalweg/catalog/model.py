"""The model of a catalog: sites, links, streams and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from thalweg.names import LIVE, SLOT, TIMELESS
from thalweg.units import AT_ITS_END

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveAmount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Microseconds = Annotated[int, Field(ge=0)]

PARQUET = "parquet"
"""The format of the result files in a run's own folder, which `thalweg verify` reads."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Site(_Model):
    """A place where streams arise and operators run; simulated, it works `speed` times as fast as `costs`."""

    speed: PositiveAmount = 1.0


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
    """A Spark streaming source; relative paths are already resolved against the catalog's folder.

    `value` says how its column of that name is encoded, if the stream's columns are inside it; `columns` are
    those that come from other fields of a record, by the names of these.
    """

    format: str
    options: Mapping[str, str] = {}
    value: Literal["json", "csv", "avro", "protobuf"] | None = None
    value_options: Mapping[str, str] = {}
    columns: Mapping[str, str] = {}

    @property
    def is_text(self) -> bool:
        """Whether columns are written as text, so that anything could be in them."""
        return (self.value or self.format.lower()) in ("json", "csv")

    @property
    def is_kafka(self) -> bool:
        """Whether it reads topics of Kafka."""
        return self.format.lower() == "kafka"

    def option(self, name: str) -> str | None:
        """An option of the source, or of its values, whatever its case."""
        every = {**self.options, **self.value_options}
        return next((value for key, value in every.items() if key.lower() == name.lower()), None)


class Stats(_Model):
    """Declared statistics of a stream; a missing one is assumed later, never zero.

    `rows` is how many a table has.
    """

    rows: Amount | None = None
    rate: Amount | None = None
    bytes: Amount | None = None
    widths: Mapping[str, Amount] = {}
    distinct: Mapping[str, PositiveAmount] = {}
    rates: Mapping[str, Mapping[Any, Amount]] = {}


_NOTHING_KNOWN = Stats()


class Stream(_Model):
    """A stream and the site where it arises. Durations are in microseconds.

    In the source, its time may be a number of `time_unit`s since 1970, or a text of the form `time_format`.
    A `table` has no time: its source is read once, and its rows are alive always. With `refresh`, it is read
    again when it has changed, which is looked for so often, and each version is alive until the next.
    """

    name: str
    site: str
    time: str
    order: tuple[str, ...] = ()
    lateness: int = 10_000_000
    idle: Microseconds | None = None
    max_ahead: Microseconds | None = None
    columns: Mapping[str, str]  # name -> Spark SQL type name, in order
    source: Source
    stats: Stats = Stats()
    time_unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    time_format: str | None = None
    time_number: str | None = None  # the type of a time that is a number, where it was declared
    table: bool = False
    refresh: Microseconds | None = None

    @property
    def raw_time(self) -> str | None:
        """The type of the time in the source, where it is another one; None where it is a timestamp."""
        if self.table:
            return None
        if self.time_unit is not None:
            return self.time_number or ("decimal(38,6)" if self.source.is_text else "bigint")
        if self.time_format is not None:
            return "string"
        plain = self.source.is_text and self.source.option("timestampFormat") is None
        return "string" if plain and self.columns[self.time].lower() == "timestamp" else None

    @model_validator(mode="after")
    def _columns_exist(self) -> Stream:
        named = {*self.order, *self.stats.widths, *self.stats.distinct, *self.stats.rates}
        named |= set() if self.table else {self.time}
        if missing := sorted(named - set(self.columns)):
            raise ValueError(f"stream {self.name} has no column {', '.join(missing)}")
        if self.lateness < 0 and not self.table:
            raise ValueError(f"the lateness of stream {self.name} is negative")
        return self

    @classmethod
    def of_table(
        cls,
        name: str,
        site: str,
        columns: Mapping[str, str],
        source: Source,
        stats: Stats = _NOTHING_KNOWN,
        refresh: int | None = None,
    ) -> Stream:
        """A table: a stream of which all comes at once, before everything else.

        One that is refreshed comes once in each version, none of whose rows is late.
        """
        stats = stats.model_copy(update={"rate": 0.0})
        return cls(
            name=name,
            site=site,
            time=TIMELESS,
            lateness=AT_ITS_END if refresh is None else 0,
            columns=columns,
            source=source,
            stats=stats,
            table=True,
            refresh=refresh,
        )

    @property
    def hidden(self) -> dict[str, str]:
        """The columns that a table gets beside its own."""
        if not self.table:
            return {}
        more = {} if self.refresh is None else {SLOT: "bigint", LIVE: "boolean"}
        return {TIMELESS: "timestamp", **more}

    @property
    def types(self) -> dict[str, str]:
        """All columns that a query can compare, and their types."""
        return {**self.columns, **self.hidden}


class Destination(_Model):
    """Where results of a query go: a batch writer of Spark, or a format that Thalweg knows more of.

    `value` says how a record's value is encoded, `key` are the columns of its key. `where` is its place in
    the catalog.
    """

    format: str
    options: Mapping[str, str] = {}
    value: Literal["json", "avro"] | None = None
    value_options: Mapping[str, str] = {}
    key: tuple[str, ...] = ()
    where: str = ""

    def option(self, name: str) -> str | None:
        """An option, whatever its case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)


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
    """All that a query and its plan may refer to; `path` is the file it was read from, if it was one."""

    path: str
    sites: Mapping[str, Site]
    streams: Mapping[str, Stream]
    sinks: Mapping[str, tuple[Destination, ...]] = {}
    """Where the results of a query go, by its name; those of others go to parquet files."""
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

    def destinations(self, query: str) -> tuple[Destination, ...]:
        """Where the results of a query go."""
        return self.sinks.get(query, (Destination(format=PARQUET),))

    @property
    def schemas(self) -> dict[str, Mapping[str, str]]:
        """Every stream's columns and their types, as `thalweg.query.parse` takes them."""
        return {name: stream.columns for name, stream in self.streams.items()}

    @property
    def times(self) -> dict[str, str]:
        """Every stream's time column."""
        return {name: stream.time for name, stream in self.streams.items() if not stream.table}

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables among the streams."""
        return frozenset(name for name, stream in self.streams.items() if stream.table)

    @property
    def refreshed(self) -> frozenset[str]:
        """The names of the tables that are read again when they have changed."""
        return frozenset(name for name, stream in self.streams.items() if stream.refresh is not None)

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

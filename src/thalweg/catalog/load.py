"""Reads a catalog: YAML in, checked model out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from thalweg.catalog.destinations import read_sinks
from thalweg.catalog.document import Place, parse, read
from thalweg.catalog.model import Catalog, Costs, JoinSelectivity, Link, Links, Site, Source, Stats, Stream
from thalweg.catalog.options import read_options
from thalweg.catalog.types import SparkType, parse_type
from thalweg.names import NAMING, is_name
from thalweg.units import parse_duration

_LINK = ("latency_ms", "mbps", "usd_per_gb")
_STREAM = (
    *("site", "time", "time_unit", "time_format", "order", "lateness", "idle", "max_ahead"),
    *("schema", "source", "stats"),
)
_TABLE = ("site", "schema", "source", "stats", "refresh")
_STATS = ("rate", "bytes", "widths", "distinct", "rates")
_UNITS = ("seconds", "milliseconds", "microseconds")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_ENCODINGS: Mapping[str, tuple[str, ...]] = {
    "json": (),
    "csv": (),
    "avro": ("schema",),
    "protobuf": ("descriptor", "message"),
}
"""The encodings of values, and the options that one must have."""
_FILE_OPTIONS = ("schema", "descriptor")
_SIZED = ("char", "varchar")
_TIMES = ("timestamp", "timestamp_ntz")
_VALUES: tuple[tuple[tuple[str, ...], tuple[type, ...]], ...] = (
    (("tinyint", "smallint", "int", "bigint"), (int,)),
    (("float", "double", "decimal"), (int, float)),
    (("boolean",), (bool,)),
)
"""The YAML types of a column's values, for column types that allow only some."""


def load(path: str | os.PathLike[str]) -> Catalog:
    """Read a catalog file; a mistake in it is a UserError that names the place."""
    file = Path(path).absolute()
    return _catalog(read(Path(path), str(path)), str(file), file.parent)


def load_text(text: str, shown: str = "the catalog") -> Catalog:
    """Read the text of a catalog; relative paths in it are relative to the current folder."""
    return _catalog(parse(text, shown), "", Path.cwd())


def _catalog(document: Place, path: str, folder: Path) -> Catalog:
    top = document.mapping(
        ("sites", "links", "streams", "tables", "sinks", "joins", "costs"), required=("sites", "streams")
    )
    sites = _sites(top["sites"])
    streams = _streams(top["streams"], top.get("tables"), sites, folder)
    return Catalog(
        path=path,
        sites=sites,
        streams=streams,
        sinks=read_sinks(top["sinks"], folder) if "sinks" in top else {},
        links=_links(top["links"], sites) if "links" in top else Links(),
        joins=_joins(top["joins"], streams) if "joins" in top else (),
        costs=_costs(top["costs"]) if "costs" in top else Costs(),
    )


def _named(place: Place, what: str) -> dict[str, Place]:
    entries = place.mapping()
    if not entries:
        raise place.error(f"a catalog needs at least one {what}")
    for name, entry in entries.items():
        if not is_name(name):
            raise entry.error(f"{name[:80]!r} can't be the name of a {what}", NAMING)
    return entries


def _sites(place: Place) -> dict[str, Site]:
    found = {}
    for name, entry in _named(place, "site").items():
        keys = {} if entry.kind == "nothing" else entry.mapping(("speed",))
        found[name] = Site(speed=keys["speed"].number(positive=True)) if keys else Site()
    return found


def _site(place: Place, sites: Mapping[str, Site]) -> str:
    name = place.raw()
    if name not in sites:
        raise place.unknown("site", name, sites)
    return name


def _links(place: Place, sites: Mapping[str, Site]) -> Links:
    top = place.mapping(("default", "pairs"))
    base = Link()
    if "default" in top:
        base = _link(top["default"].mapping(_LINK), base)
    if "pairs" not in top:
        return Links(default=base)
    two_way: dict[tuple[str, str], Link] = {}
    one_way: dict[tuple[str, str], Link] = {}
    for item in top["pairs"].items():
        keys = item.mapping(("between", "from", "to", *_LINK))
        if "between" in keys:
            if "from" in keys or "to" in keys:
                raise item.error("a link is either between two sites or from one to another", "choose one")
            ends = keys["between"].items()
            if len(ends) != 2:
                raise keys["between"].error("a link is between two sites", "write between: [n1, n2]")
        elif "from" in keys and "to" in keys:
            ends = [keys["from"], keys["to"]]
        else:
            raise item.error("a link needs two sites", "write between: [n1, n2], or from: n1, to: n2")
        source, target = (_site(end, sites) for end in ends)
        if source == target:
            raise item.error(f"a link from {source!r} to itself", "name two different sites")
        seen = two_way if "between" in keys else one_way
        if (source, target) in seen:
            raise item.error(f"the link between {source!r} and {target!r} is here twice")
        link = _link(keys, base)
        seen[source, target] = link
        if "between" in keys:
            seen[target, source] = link
    # A one-way link says more than a two-way one, so it stands whichever comes first.
    return Links(default=base if "default" in top else None, pairs={**two_way, **one_way})


def _link(keys: Mapping[str, Place], base: Link) -> Link:
    return Link(
        latency_ms=keys["latency_ms"].number() if "latency_ms" in keys else base.latency_ms,
        mbps=keys["mbps"].number(positive=True) if "mbps" in keys else base.mbps,
        usd_per_gb=keys["usd_per_gb"].number() if "usd_per_gb" in keys else base.usd_per_gb,
    )


def _streams(
    place: Place, tables: Place | None, sites: Mapping[str, Site], folder: Path
) -> dict[str, Stream]:
    """The streams, and the tables after them."""
    streams = _named(place, "stream")
    others = {} if tables is None else _named(tables, "table")
    seen: dict[str, str] = {}
    for name, entry in (*streams.items(), *others.items()):
        if other := seen.get(name.lower()):
            what = f"{name!r} is a stream and a table"
            if other != name:
                what = f"the streams {other!r} and {name!r} differ only in case"
            raise entry.error(what, "SQL can't tell them apart")
        seen[name.lower()] = name
    found = {name: _stream(name, entry, sites, folder) for name, entry in streams.items()}
    return found | {name: _table(name, entry, sites, folder) for name, entry in others.items()}


def _table(name: str, place: Place, sites: Mapping[str, Site], folder: Path) -> Stream:
    keys = place.mapping(_TABLE, required=("site", "schema", "source"))
    types = _schema(keys["schema"])
    source = _source(keys["source"], types, folder)
    if source.value is not None:
        raise keys["source"].error("a table's values are not encoded", "leave `value` out")
    written = keys["schema"].mapping()
    columns = {column: _declared(written[column].text().strip(), kind) for column, kind in types.items()}
    stats = Stats()
    if "stats" in keys:
        known = keys["stats"].mapping(("rows", "bytes", "widths", "distinct"))
        stats = read_stats({k: v for k, v in known.items() if k != "rows"}, types)
        if "rows" in known:
            stats = stats.model_copy(update={"rows": known["rows"].number()})
    refresh = None
    if "refresh" in keys:
        refresh = parse_duration(keys["refresh"].scalar(), where=keys["refresh"].where)
        if refresh == 0:
            raise keys["refresh"].error("refresh must be longer than zero", "leave it out to read once")
    return Stream.of_table(name, _site(keys["site"], sites), columns, source, stats, refresh)


def _stream(name: str, place: Place, sites: Mapping[str, Site], folder: Path) -> Stream:
    keys = place.mapping(_STREAM, required=("site", "time", "schema", "source"))
    types = _schema(keys["schema"])
    time = _column(keys["time"], keys["time"].raw(), types)
    how, types = _time(keys, time, types)
    order: tuple[str, ...] = ()
    if "order" in keys:
        listed = keys["order"].items() if keys["order"].is_list else [keys["order"]]
        order = tuple(_column(item, item.raw(), types) for item in listed)
        if len(set(order)) < len(order):
            raise keys["order"].error("a column is here twice")
    durations: dict[str, Any] = {}
    for key in ("lateness", "idle", "max_ahead"):
        if key in keys:
            durations[key] = parse_duration(keys[key].scalar(), where=keys[key].where)
    if durations.get("idle") == 0:
        raise keys["idle"].error("idle must be longer than zero", "leave it out to wait for ever")
    written = keys["schema"].mapping()
    return Stream(
        name=name,
        site=_site(keys["site"], sites),
        time=time,
        order=order,
        columns={
            column: _declared(written[column].text().strip(), kind) if column != time else kind.sql
            for column, kind in types.items()
        },
        source=_source(keys["source"], types, folder),
        stats=read_stats(keys["stats"].mapping(_STATS), types) if "stats" in keys else Stats(),
        **durations,
        **how,
    )


def _time(
    keys: Mapping[str, Place], time: str, types: Mapping[str, SparkType]
) -> tuple[dict[str, Any], dict[str, SparkType]]:
    """How the time is written in the source, and the columns with the time as a timestamp."""
    kind = types[time]
    as_timestamp = {**types, time: kind if kind.name in _TIMES else parse_type("timestamp")}
    if "time_unit" in keys and "time_format" in keys:
        raise keys["time_format"].error("a time is a number or a text", "keep time_unit or time_format")
    if "time_unit" in keys:
        unit = keys["time_unit"].text().strip()
        if unit not in _UNITS:
            raise keys["time_unit"].unknown("unit", unit, _UNITS)
        if kind.name not in (*_TIMES, *_NUMBERS):
            raise keys["time"].error(
                f"the time column {time!r} is of type {kind.sql}", "with time_unit it is a number"
            )
        return {"time_unit": unit, "time_number": kind.sql if kind.name in _NUMBERS else None}, as_timestamp
    if "time_format" in keys:
        if kind.name not in (*_TIMES, "string"):
            raise keys["time"].error(
                f"the time column {time!r} is of type {kind.sql}", "with time_format it is a string"
            )
        return {"time_format": keys["time_format"].text()}, as_timestamp
    if kind.name not in _TIMES:
        also = (
            "; or say what it is with time_unit or time_format" if kind.name in (*_NUMBERS, "string") else ""
        )
        raise keys["time"].error(
            f"the time column {time!r} is of type {kind.sql}",
            f"it must be a timestamp or timestamp_ntz{also}",
        )
    return {}, as_timestamp


def _declared(text: str, kind: SparkType) -> str:
    """A type as it is written, but text of a limited length as a string: no Spark source has the former."""
    return kind.without_lengths().sql if any(k.name in _SIZED for k in kind.within()) else text


def _schema(place: Place) -> dict[str, SparkType]:
    types: dict[str, SparkType] = {}
    seen: dict[str, str] = {}
    for name, entry in place.mapping().items():
        if not name.strip():
            raise entry.error("a column needs a name")
        if other := seen.get(name.lower()):
            raise entry.error(
                f"the columns {other!r} and {name!r} differ only in case", "Spark can't tell them apart"
            )
        seen[name.lower()] = name
        types[name] = parse_type(entry.text(), where=entry.where)
    if not types:
        raise place.error("a stream has at least its time column", "write schema: {ts: timestamp, ...}")
    return types


def _column(place: Place, name: str, columns: Iterable[str]) -> str:
    declared = {column.lower(): column for column in columns}
    if name.lower() not in declared:
        raise place.unknown("column", name, declared.values())
    return declared[name.lower()]


def _source(place: Place, types: Mapping[str, SparkType], folder: Path) -> Source:
    keys = place.mapping(("format", "options", "value", "value_options", "columns"), required=("format",))
    value: Any = keys["value"].text().strip() if "value" in keys else None
    if value is not None and value not in _ENCODINGS:
        raise keys["value"].unknown("encoding", value, _ENCODINGS)
    for key in ("value_options", "columns"):
        if key in keys and value is None:
            raise keys[key].error(f"`{key}` is for a source with `value`", "leave it out")
    columns = {
        _column(entry, name, types): entry.raw()
        for name, entry in (keys["columns"].mapping() if "columns" in keys else {}).items()
    }
    return Source(
        format=keys["format"].text().strip(),
        options=read_options(keys["options"], folder) if "options" in keys else {},
        value=value,
        value_options=_value_options(value, place, keys, folder),
        columns=columns,
    )


def _value_options(
    value: str | None, place: Place, keys: Mapping[str, Place], folder: Path
) -> dict[str, str]:
    given = read_options(keys["value_options"], folder) if "value_options" in keys else {}
    for name in _ENCODINGS.get(value or "", ()):
        if name not in given:
            example = {"schema": "packets.avsc", "descriptor": "packets.desc", "message": "Packet"}[name]
            raise keys.get("value_options", place).error(
                f"a value in {value} needs the option {name!r}", f"write value_options: {{{name}: {example}}}"
            )
        if name in _FILE_OPTIONS:
            given[name] = str(folder / given[name])
    return given


def read_stats(keys: Mapping[str, Place], types: Mapping[str, SparkType]) -> Stats:
    """The statistics of a stream with columns of these types, by their keys."""

    def by_column(key: str) -> list[tuple[str, Place]]:
        found: dict[str, Place] = {}
        for name, entry in (keys[key].mapping() if key in keys else {}).items():
            column = _column(entry, name, types)
            if column in found:
                raise entry.error(f"the column {column!r} is here twice")
            found[column] = entry
        return list(found.items())

    return Stats(
        rate=keys["rate"].number() if "rate" in keys else None,
        bytes=keys["bytes"].number() if "bytes" in keys else None,
        widths={column: entry.number() for column, entry in by_column("widths")},
        distinct={column: entry.number(positive=True) for column, entry in by_column("distinct")},
        rates={column: _rates(entry, types[column]) for column, entry in by_column("rates")},
    )


def _rates(place: Place, type_: SparkType) -> dict[object, float]:
    """Rates by value; a value is read as the column's type has it, so 007 of a string stays 007."""
    found: dict[object, float] = {}
    for key, entry in place.pairs():
        value: object = key.raw() if type_.name in ("string", *_SIZED) else key.scalar()
        if any(type_.name in names and type(value) not in kinds for names, kinds in _VALUES):
            raise entry.error(f"{key.raw()[:40]!r} is not a value of a column of type {type_.sql}")
        if value in found:
            raise entry.error(f"the value {key.raw()[:40]!r} is here twice")
        found[value] = entry.number()
    return found


def _joins(place: Place, streams: Mapping[str, Stream]) -> tuple[JoinSelectivity, ...]:
    found: dict[frozenset[tuple[str, str]], JoinSelectivity] = {}
    for item in place.items():
        keys = item.mapping(("left", "right", "selectivity"), required=("left", "right", "selectivity"))
        left, right = (_stream_column(keys[side], streams) for side in ("left", "right"))
        if frozenset((left, right)) in found:
            raise item.error(f"the join of {'.'.join(left)} and {'.'.join(right)} is here twice")
        found[frozenset((left, right))] = JoinSelectivity(
            left=left, right=right, selectivity=keys["selectivity"].number(most=1)
        )
    return tuple(found.values())


def _stream_column(place: Place, streams: Mapping[str, Stream]) -> tuple[str, str]:
    stream, dot, column = place.text().strip().partition(".")
    if not dot:
        raise place.error(f"{stream[:80]!r} does not name a stream's column", "write stream.column")
    if stream not in streams:
        raise place.unknown("stream", stream, streams)
    return stream, _column(place, column, streams[stream].columns)


def _costs(place: Place) -> Costs:
    keys = place.mapping(tuple(Costs.model_fields))
    return Costs(**{k: v.number(positive=k == "interval_s") for k, v in keys.items()})

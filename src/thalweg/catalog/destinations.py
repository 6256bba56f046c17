"""Reads the `sinks` of a catalog: where the results of each query go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.catalog.document import Place
from thalweg.catalog.model import PARQUET, Destination
from thalweg.catalog.options import read_options
from thalweg.names import NAMING, is_name

_KEYS = ("format", "options", "value", "value_options", "key")
_VALUES = ("json", "avro")


@dataclass(frozen=True)
class Kind:
    """What a format takes: options that it must have, one of `either`, and the only ones, if it says so."""

    required: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    """Further keys beside `format` and `options`."""


KINDS: Mapping[str, Kind] = {
    PARQUET: Kind(only=()),
    "console": Kind(only=("rows",)),
    "jdbc": Kind(("url", "dbtable"), keys=("key",)),
    "kafka": Kind(("kafka.bootstrap.servers", "topic"), keys=("value", "value_options", "key")),
}
"""The formats that Thalweg knows more of. All others are batch writers of Spark, which check themselves."""


def read_sinks(place: Place, folder: Path) -> dict[str, tuple[Destination, ...]]:
    """The destinations of each query; a relative path is relative to the folder."""
    found = {}
    for query, entry in place.mapping().items():
        if not is_name(query):
            raise entry.error(f"{query[:80]!r} can't be the name of a query", NAMING)
        items = entry.items()
        if not items:
            raise entry.error("the list of sinks is empty", "leave it out for parquet files")
        found[query] = tuple(_destination(item, folder) for item in items)
        formats = [one.format for one in found[query]]
        if formats.count(PARQUET) > 1:
            raise entry.error("two sinks are parquet", "results are written to the run's folder once")
    return found


def _destination(place: Place, folder: Path) -> Destination:
    keys = place.mapping(_KEYS, required=("format",))
    written = keys["format"].text().strip()
    name = written.lower() if written.lower() in KINDS else written
    options = read_options(keys["options"], folder) if "options" in keys else {}
    kind = KINDS.get(name, Kind())
    for key in _KEYS[2:]:
        if key in keys and key not in kind.keys:
            takers = ", ".join(n for n, k in KINDS.items() if key in k.keys)
            raise keys[key].error(f"a sink of the format {name} has no `{key}`", f"it is for {takers}")
    _check_options(keys.get("options", place), name, kind, options)
    value: Any = keys["value"].text().strip() if "value" in keys else None
    if value is not None and value not in _VALUES:
        raise keys["value"].unknown("encoding", value, _VALUES)
    if "value_options" in keys and value == "avro":
        raise keys["value_options"].error("Avro takes no options", "leave it out")
    columns: tuple[str, ...] = ()
    if "key" in keys:
        listed = keys["key"].items() if keys["key"].is_list else [keys["key"]]
        columns = tuple(item.raw() for item in listed)
        if not columns or len({c.lower() for c in columns}) < len(columns):
            raise keys["key"].error("a key is one column or several different ones")
    return Destination(
        format=name,
        options=options,
        value=value,
        value_options=read_options(keys["value_options"], folder) if "value_options" in keys else {},
        key=columns,
        where=place.where,
    )


def _check_options(place: Place, name: str, kind: Kind, options: Mapping[str, str]) -> None:
    given = {option.lower() for option in options}
    for option in kind.required:
        if option.lower() not in given:
            raise place.error(f"a sink of the format {name} needs the option {option}")
    if kind.either and not given & {*kind.either}:
        raise place.error(f"a sink of the format {name} needs the option {' or '.join(kind.either)}")
    if kind.only is not None and (more := sorted(given - {*kind.only})):
        what = f"a sink of the format {name} has no option {more[0]!r}"
        if name == PARQUET:
            raise place.error(what, "its files are in the folder that --out names")
        raise place.unknown(f"option of the format {name}", more[0], kind.only)

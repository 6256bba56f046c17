"""Changes of streams while a simulation goes on: `--changes FILE`.

- {at: 30, stream: s1, rate: 200}                       # at second 30, s1 brings 200 tuples a second
- {at: 45, stream: s2, distinct: {dest: 10}}
- {at: 60, stream: s1, rates: {dest: {a: 1, b: 150}}}   # as in the catalog's `stats`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thalweg.catalog.document import read
from thalweg.catalog.load import read_stats
from thalweg.catalog.model import Catalog, Stats, Stream
from thalweg.catalog.types import parse_type

_CHANGED = ("rate", "bytes", "widths", "distinct", "rates")


@dataclass(frozen=True)
class Change:
    """From a moment on, a stream has other statistics; what is not said stays."""

    at_us: int
    stream: str
    stats: Stats


def read_changes(path: Path, catalog: Catalog) -> tuple[Change, ...]:
    """Reads a file of changes; a mistake in it is a UserError that names the place."""
    found = []
    for item in read(path, str(path), "file of changes", "a list of changes").items():
        keys = item.mapping(("at", "stream", *_CHANGED), required=("at", "stream"))
        name = keys["stream"].raw()
        if name not in catalog.streams:
            raise keys["stream"].unknown("stream", name, catalog.streams)
        if not keys.keys() & set(_CHANGED):
            raise item.error("nothing changes", f"give some of {', '.join(_CHANGED)}")
        types = {c: parse_type(t) for c, t in catalog.streams[name].columns.items()}
        stats = read_stats({key: place for key, place in keys.items() if key in _CHANGED}, types)
        found.append(Change(round(1e6 * keys["at"].number()), name, stats))
    return tuple(sorted(found, key=lambda change: change.at_us))


def phases(catalog: Catalog, changes: Sequence[Change], end_us: int) -> list[tuple[int, int, Catalog]]:
    """From when to when which statistics hold."""
    moments = sorted({0, *(c.at_us for c in changes if 0 < c.at_us < end_us)})
    found = []
    for low, high in zip(moments, [*moments[1:], end_us], strict=True):
        for change in changes:
            if change.at_us == low:
                stream = changed(catalog.streams[change.stream], change.stats)
                catalog = catalog.model_copy(update={"streams": {**catalog.streams, stream.name: stream}})
        found.append((low, high, catalog))
    return found


def changed(stream: Stream, new: Stats) -> Stream:
    """A stream with some other statistics. Rates by value keep their shares if only the rate is said."""
    old = stream.stats
    rates = {**old.rates, **new.rates}
    rate = new.rate
    if rate is not None and not new.rates:
        for column, by_value in old.rates.items():
            total = old.rate if old.rate is not None else sum(by_value.values())
            rates[column] = {v: r * rate / total if total else 0.0 for v, r in by_value.items()}
    elif rate is None and new.rates:
        rate = sum(next(iter(new.rates.values())).values())
    stats = Stats(
        rate=old.rate if rate is None else rate,
        bytes=old.bytes if new.bytes is None else new.bytes,
        widths={**old.widths, **new.widths},
        distinct={**old.distinct, **new.distinct},
        rates=rates,
    )
    return stream.model_copy(update={"stats": stats})

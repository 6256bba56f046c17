"""`thalweg.stats`: measures the streams of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.api.inputs import CatalogInput, QueriesInput, read_catalog, read_queries, reading_with_spark

if TYPE_CHECKING:
    from thalweg.catalog.model import Catalog, JoinSelectivity, Stream
    from thalweg.observe.sketch import Sketch
    from thalweg.oracle.inputs import ReadStatic
    from thalweg.query.model import Query

_ROWS = 100_000


@dataclass(frozen=True)
class Measured:
    """What was measured of a stream, as a catalog declares it; None, or left out, where it is unknown."""

    tuples: int
    rate: float | None
    bytes: float | None
    widths: Mapping[str, float]
    distinct: Mapping[str, float]
    rates: Mapping[str, Mapping[Any, float]]

    @classmethod
    def of(cls, sketch: Sketch) -> Measured:
        known = sketch.stats()
        return cls(round(sketch.count), known.rate, known.bytes, known.widths, known.distinct, known.rates)

    def to_json(self) -> dict[str, Any]:
        known = {"rate": self.rate, "bytes": self.bytes}
        return {
            **{name: value for name, value in known.items() if value is not None},
            **{"widths": dict(self.widths), "distinct": dict(self.distinct)},
            "rates": {column: dict(rates) for column, rates in self.rates.items()},
            "tuples": self.tuples,
        }


@dataclass(frozen=True, repr=False)
class Statistics:
    """The statistics of streams and joins; `catalog` is the catalog with them."""

    streams: Mapping[str, Measured]
    joins: tuple[JoinSelectivity, ...]
    catalog: Catalog = field(compare=False)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `thalweg stats`; what is unknown is left out."""
        return {
            "streams": {name: known.to_json() for name, known in self.streams.items()},
            "joins": [
                {"left": ".".join(j.left), "right": ".".join(j.right), "selectivity": j.selectivity}
                for j in self.joins
            ],
        }

    def text(self) -> str:
        """What `thalweg stats` prints."""
        from thalweg.report import tables

        return tables.text(tables.measured(self.streams, self.joins))

    def __repr__(self) -> str:
        return self.text()


def stats(queries: QueriesInput, catalog: CatalogInput, *, write: bool = False) -> Statistics:
    """Measure the streams of queries: rates, widths, distinct and frequent values, selectivities.

    `write` puts them into the catalog's file; all else in it stays. `queries` and `catalog` are as for
    `plan`.
    """
    from thalweg.catalog import edit
    from thalweg.observe.joins import joins

    read = read_catalog(catalog)
    parsed = read_queries(queries, read)
    if write:
        edit.check_file(read)
    sketches = _measure(parsed, read)
    known, found = {name: sketch.stats() for name, sketch in sketches.items()}, joins(parsed, sketches)
    if write:
        edit.write(read, known, found)
    measured = {name: Measured.of(sketch) for name, sketch in sketches.items()}
    return Statistics(measured, found, edit.updated(read, known, found))


def _measure(queries: Sequence[Query], catalog: Catalog) -> dict[str, Sketch]:
    """A sketch of each stream of the queries, of all tuples that its source holds."""
    from thalweg.observe.joins import keys

    read = reading_with_spark(queries, catalog)
    streams = {name: columns for name, columns in keys(queries).items() if name not in catalog.tables}
    return {name: _measured(catalog.streams[name], columns, read) for name, columns in streams.items()}


def _measured(stream: Stream, keys: Sequence[str], read: ReadStatic) -> Sketch:
    import pyarrow as pa

    from thalweg.observe.sketch import Sketch
    from thalweg.oracle import duck, inputs

    sketch = Sketch()
    with duck.connect("measuring streams") as con:
        for batch in inputs.batches(con, stream, read, _ROWS):
            timed = batch.filter(batch.column(stream.time).is_valid())  # a run sets the others aside
            times = timed.column(stream.time).cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
            sketch.update(dict(zip(timed.schema.names, timed.columns, strict=True)), times, keys)
    return sketch

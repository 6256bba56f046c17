"""Results as encoded values: each row as JSON or Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as fn

from thalweg.query.model import quoted

_JSON = {
    # Spark's own form has milliseconds, and leaves out columns that are NULL.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def as_json(columns: Sequence[str], options: Mapping[str, str]) -> Column:
    """Columns as one JSON object, with exact times; `options` are those of Spark's to_json."""
    own = {name.lower() for name in options}
    defaults = {name: value for name, value in _JSON.items() if name.lower() not in own}
    return fn.to_json(fn.struct(*map(quoted, columns)), {**defaults, **options})


def as_avro(columns: Sequence[str]) -> Column:
    """Columns as one Avro record, by the schema that Spark makes of their types."""
    return fn.expr(f"to_avro(struct({', '.join(map(quoted, columns))}))")

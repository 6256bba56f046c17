"""Values in Avro: records become structs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from thalweg.errors import UserError

DECODED = "_thalweg_decoded"
"""A field that every decoded record has. Of a value that can't be decoded, Spark makes a record of NULLs; a
record may consist of NULLs as well, but not of this one."""


def decoded(value: str, schema: str, options: Mapping[str, str], where: str) -> Column:
    """A column of records by their schema, as structs that also have the field `DECODED`."""
    given = {key: text for key, text in options.items() if key.lower() != "avroschema"}
    reader = next((text for key, text in options.items() if key.lower() == "avroschema"), schema)
    marked = {**given, "mode": "PERMISSIVE", "avroSchema": _marked(reader, where)}
    return from_avro(f.col(value).cast("binary"), json.dumps(_record(schema, where)), marked)


def _record(schema: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(schema)
    except ValueError as error:
        raise UserError(f"the Avro schema is not JSON: {error}", where=where) from None
    if (
        not isinstance(found, dict)
        or found.get("type") != "record"
        or not isinstance(found.get("fields"), list)
    ):
        raise UserError(
            "the Avro schema is not of a record", where=where, remedy="such as {type: record, ...}"
        )
    return found


def _marked(schema: str, where: str) -> str:
    record = _record(schema, where)
    mark = {"name": DECODED, "type": "boolean", "default": True}
    return json.dumps({**record, "fields": [*record["fields"], mark]})

"""Groups of results: GROUP BY and SELECT DISTINCT, as Spark computes them over the results of a batch.

The sink hands out the results of a tumbling window together, when no other can fall into it. So the groups of
a batch are whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from thalweg.query.model import Expr, Query
from thalweg.query.rename import rename


def grouped(results: DataFrame, query: Query, names: Mapping[tuple[str, str], str]) -> DataFrame:
    """The groups of results, whose columns are called by `names`."""
    assert query.groups is not None
    plain = [o.expr for o in query.outputs if not o.aggregate]
    keys: dict[Expr, str] = {}
    for expr in (query.groups.start, *query.groups.keys, *plain):
        keys.setdefault(expr, f"k{len(keys)}")
    by = [fn.expr(rename(expr, names)).alias(key) for expr, key in keys.items()]
    made = {
        f"v{n}": fn.expr(f"{o.aggregate}({rename(o.expr, names)})")
        for n, o in enumerate(query.outputs)
        if o.aggregate
    }
    if made:
        rows = results.groupBy(*by).agg(*(value.alias(name) for name, value in made.items()))
    else:
        rows = results.select(*by).distinct()
    found = [
        fn.col(f"v{n}" if o.aggregate else keys[o.expr]).alias(o.name) for n, o in enumerate(query.outputs)
    ]
    return rows.select(*found)

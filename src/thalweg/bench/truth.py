"""The expected results of the join, from DuckDB over the same files as static tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from thalweg.bench.data import Workload


def query(spec: Workload, tables: Mapping[str, str]) -> str:
    """The rule in SQL; `tables` gives each stream's table by alias.

    `greatest - least <= T` is the rule. The further conditions follow from it, and only spare DuckDB the
    pairs of tuples with the same key that are far apart: a tuple's period of length T is that of its
    partner or a neighbour of it.
    """
    first, *others = spec.aliases
    joins = [f"{_timed(tables[first])} AS {first}"]
    for alias, (left, right) in zip(others, spec.equalities, strict=True):
        anchor = left.split(".")[0]
        near = (
            f"SELECT t.*, t.us // {spec.window_us} + n.shift AS period"
            f" FROM {_timed(tables[alias])} AS t, (VALUES (-1), (0), (1)) AS n(shift)"
        )
        joins.append(
            f"JOIN ({near}) AS {alias} ON {left} = {right}"
            f" AND {alias}.period = {anchor}.us // {spec.window_us} AND {_together(spec, alias)}"
        )
    columns = ", ".join(f"{alias}.{c} AS {alias}_{c}" for alias in spec.aliases for c in spec.columns(alias))
    return f"SELECT {columns} FROM " + "\n".join(joins)


def files(spec: Workload, data: Path, batches: int | None = None) -> dict[str, str]:
    """The first `batches` files of every stream, as tables."""
    tables = {}
    for alias in spec.aliases:
        paths = sorted((data / alias).glob("*.parquet"))[:batches]
        names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
        tables[alias] = f"read_parquet([{names}])"
    return tables


def count(spec: Workload, data: Path, batches: int | None = None, threads: int = 2) -> int:
    """How many results the first `batches` micro-batches have."""
    with duckdb.connect(config={"threads": threads}) as db:
        row = db.execute(f"SELECT count(*) FROM ({query(spec, files(spec, data, batches))})").fetchone()
    assert row is not None
    return int(row[0])


def rows(spec: Workload, data: Path, batches: int | None = None) -> list[tuple[object, ...]]:
    """The results themselves, times in microseconds, sorted; for small data."""
    shown = ", ".join(f"epoch_us({name})" if name.endswith("_ts") else name for name in spec.output)
    with duckdb.connect(config={"threads": 2}) as db:
        found = db.execute(f"SELECT {shown} FROM ({query(spec, files(spec, data, batches))})").fetchall()
    return sorted(found)


def _timed(table: str) -> str:
    return f"(SELECT *, epoch_us(ts) AS us FROM {table})"


def _together(spec: Workload, alias: str) -> str:
    times = ", ".join(f"{one}.us" for one in spec.aliases[: spec.aliases.index(alias) + 1])
    return f"greatest({times}) - least({times}) <= {spec.window_us}"

"""`thalweg.verify`: recomputes a query with DuckDB and compares with the results of a run."""

from __future__ import annotations

import os

from thalweg.api.inputs import CatalogInput, QueriesInput, read_catalog, read_query, reading_with_spark
from thalweg.errors import UserError
from thalweg.oracle import duck
from thalweg.oracle.duck import Verdict
from thalweg.storage import location

__all__ = ["Verdict", "verify"]


def verify(query: QueriesInput, catalog: CatalogInput, out: str | os.PathLike[str]) -> Verdict:
    """Recompute a query over the same sources with DuckDB, and compare with the results of a run under `out`.

    The verdict is true if they are the same, as multisets. `query` and `catalog` are as for `plan`.
    """
    read = read_catalog(catalog)
    parsed = read_query(query, read)
    at = location(out)
    if not at.is_dir():
        raise UserError("no such folder", where=str(at), remedy="give the --out folder of a run")
    return duck.verify(parsed, read, at, read_static=reading_with_spark([parsed], read))

"""Thalweg joins live streams that arise at different sites, on Spark.

`join` and `sql` work on DataFrames of PySpark, which is not imported before one of them is used.
"""

from typing import TYPE_CHECKING, Any

from thalweg.errors import UserError

if TYPE_CHECKING:
    from thalweg.spark.api import join, sql

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "join", "sql"]


def __getattr__(name: str) -> Any:
    if name in {"join", "sql"}:
        import thalweg.spark.api

        return getattr(thalweg.spark.api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Thalweg joins live streams that arise at different sites, on Spark.

`join` and `sql` work on DataFrames of PySpark; `plan`, `compare`, `stats`, `run` and `verify` do what the
commands do. What they need is imported when one of them is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from thalweg.errors import RunError, UserError

if TYPE_CHECKING:
    from thalweg.api.compare import Comparison, compare
    from thalweg.api.plan import Planned, plan
    from thalweg.api.run import Metrics, Run, run
    from thalweg.api.stats import Statistics, stats
    from thalweg.api.verify import Verdict, verify
    from thalweg.spark.api import join, sql

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Metrics",
    "Planned",
    "Run",
    "RunError",
    "Statistics",
    "UserError",
    "Verdict",
    "__version__",
    "compare",
    "join",
    "plan",
    "run",
    "sql",
    "stats",
    "verify",
]

_MODULES = {
    **dict.fromkeys(("Comparison", "compare"), "thalweg.api.compare"),
    **dict.fromkeys(("Planned", "plan"), "thalweg.api.plan"),
    **dict.fromkeys(("Metrics", "Run", "run"), "thalweg.api.run"),
    **dict.fromkeys(("Statistics", "stats"), "thalweg.api.stats"),
    **dict.fromkeys(("Verdict", "verify"), "thalweg.api.verify"),
    **dict.fromkeys(("join", "sql"), "thalweg.spark.api"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


class _Package(ModuleType):
    """`plan` is a function and a folder of modules; imports of the latter leave the former as it is."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

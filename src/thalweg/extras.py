"""Packages that only some of what Thalweg does needs, and what is said where they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from thalweg.errors import UserError

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "draw": ("matplotlib",),
    "page": ("fastapi", "uvicorn", "prometheus_client"),
    "s3": ("s3fs",),
    "verify": ("duckdb",),
}
"""The extras of this package, and the modules that each brings."""


def missing(*extras: str) -> list[str]:
    """The modules of these extras that are not installed."""
    return [name for extra in extras for name in PACKAGES[extra] if find_spec(name) is None]


def need(what: str, *extras: str, note: str = "") -> None:
    """Refuses something, by its name, that needs packages of extras that are not installed."""
    lacking = [extra for extra in extras if missing(extra)]
    if lacking:
        raise UserError(
            f"{what} needs {', '.join(missing(*lacking)).replace('_', '-')}",
            remedy=f"pip install 'thalweg[{','.join(lacking)}]'{note}",
        )

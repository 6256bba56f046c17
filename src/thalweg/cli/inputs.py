"""What several commands read and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from thalweg.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType


def read_settings(pairs: Sequence[str] | None) -> Mapping[str, str]:
    """The `--set KEY=VALUE` options.

    >>> read_settings(["width=equal"])
    {'width': 'equal'}
    """
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise UserError(f"--set {pair!r} is not KEY=VALUE", remedy="for example --set width=equal")
        if key in settings:
            raise UserError(f"--set {key} is given twice")
        settings[key] = value
    return settings


def print_json(value: Mapping[str, Any]) -> None:
    """Prints a command's JSON object."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_tables(parts: Iterable[RenderableType]) -> None:
    """Prints tables and lines. A file or a pipe has no width to squeeze columns into."""
    from rich.console import Console

    from thalweg.report.tables import show

    console = Console(width=None if sys.stdout.isatty() else 1000)
    for part in parts:
        show(console, part)

"""Pictures of plans, runs and comparisons."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.errors import UserError
from thalweg.extras import need
from thalweg.storage import Location

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def check_path(path: Location) -> None:
    """Refuses a file that can't become a picture, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"a picture can't be {path.suffix or 'a file without a suffix'}",
            where=str(path),
            remedy=f"name it {' or '.join(path.stem + s for s in SUFFIXES)}",
        )
    need("a picture", "draw")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format that the file's suffix names."""
    check_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _settings(path.suffix.lower()[1:]) as settings:
            figure.savefig(path, **settings)
    except OSError as error:
        raise UserError(f"the picture can't be written: {error.strerror}", where=str(path)) from error


def svg(figure: Figure) -> str:
    """A figure as the text of an SVG."""
    drawn = io.StringIO()
    with _settings("svg") as settings:
        figure.savefig(drawn, **settings)
    return drawn.getvalue()


@contextmanager
def _settings(kind: str) -> Iterator[dict[str, Any]]:
    """How figures are written: text in an SVG stays text, and the same picture is the same file."""
    import matplotlib

    fixed = {"Date": None} if kind == "svg" else {}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "thalweg"}):
        yield {"format": kind, "dpi": 150, "metadata": fixed}

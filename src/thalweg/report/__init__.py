"""Pictures of plans, runs and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def check_path(path: Path) -> None:
    """Refuses a file whose suffix is not that of a picture, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"a picture can't be {path.suffix or 'a file without a suffix'}",
            where=str(path),
            remedy=f"name it {' or '.join(path.stem + s for s in SUFFIXES)}",
        )


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format that the file's suffix names; text in an SVG stays text."""
    import matplotlib

    check_path(path)
    # Without the date and with a fixed salt, the same picture is the same file.
    fixed = {"Date": None} if path.suffix.lower() == ".svg" else {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "thalweg"}):
            figure.savefig(path, format=path.suffix.lower()[1:], dpi=150, metadata=fixed)
    except OSError as error:
        raise UserError(f"the picture can't be written: {error.strerror}", where=str(path)) from error

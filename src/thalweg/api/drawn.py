"""Results that a notebook shows as a picture, and a terminal as text."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.errors import UserError
from thalweg.extras import missing, need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTEBOOK = "the picture"


class Drawn(ABC):
    """A result with a picture."""

    @abstractmethod
    def text(self) -> str:
        """The result as a terminal shows it."""

    @abstractmethod
    def figure(self) -> Figure:
        """The picture."""

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture as SVG or PNG, by the file's suffix."""
        from thalweg import report

        report.check_path(Path(path))
        report.save(self.figure(), Path(path))

    def __repr__(self) -> str:
        return self.text()

    def _repr_svg_(self) -> str | None:
        """What a notebook shows."""
        if missing("draw"):
            return None
        from thalweg import report

        return report.svg(self.figure())

    def _repr_html_(self) -> str | None:
        """What it shows where nothing can be drawn."""
        try:
            need(_NOTEBOOK, "draw")
        except UserError as error:
            return f"<pre>{escape(self.text())}</pre><p>{escape(str(error))}</p>"
        return None

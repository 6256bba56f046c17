"""Finished experiments in a folder: what came out, so that it is not run again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.errors import UserError
from thalweg.files import write_text
from thalweg.reproduce.files import write
from thalweg.reproduce.outcome import Outcome


@dataclass(frozen=True)
class Kept:
    """The outcome of an experiment as its JSON says it, with its scale, seconds and files."""

    said: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.said["name"])

    @property
    def scale(self) -> float:
        return float(self.said["scale"])

    @property
    def claims(self) -> list[dict[str, Any]]:
        return list(self.said["claims"])

    @property
    def holding(self) -> int:
        """How many claims hold."""
        return sum(bool(claim["holds"]) for claim in self.claims)

    @property
    def picture(self) -> Path:
        return next(Path(f) for f in self.said["files"] if f.endswith(".png"))

    @property
    def command(self) -> str:
        scale = "" if self.scale == 1 else f" --scale {self.scale:g}"
        return f"thalweg reproduce {shlex.quote(self.name)}{scale}"


def keep(outcome: Outcome, scale: float, seconds: float, out: Path) -> Kept:
    """Writes the measurements, the picture, and what came out."""
    paths = [str(path) for path in write(outcome, out)]
    said = {**outcome.to_json(), "scale": scale, "seconds": round(seconds, 1), "files": paths}
    write_text(_path(out, outcome.name), json.dumps(said, indent=1, allow_nan=False))
    return Kept(said)


def kept(out: Path, name: str) -> Kept | None:
    """What came out of an experiment, if it has finished in that folder."""
    path = _path(out, name)
    if not path.exists():
        return None
    try:
        found = Kept(json.loads(path.read_text()))
        # Where a file of it is gone, it is run again.
        return found if all(Path(f).exists() for f in found.said["files"]) else None
    except (ValueError, KeyError, OSError) as error:
        raise UserError(
            "the file is not one that reproduce has written", where=str(path), remedy="remove it"
        ) from error


def _path(out: Path, name: str) -> Path:
    return out / f"{name}.json"

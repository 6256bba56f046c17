"""The prices of a join's operations on this machine: measured once, and kept in a small file."""

from __future__ import annotations

import json
import logging
import os
import platform
from datetime import date
from pathlib import Path

from thalweg.cost.splitting import NAMES, Operations
from thalweg.files import write_text

PLACE = "THALWEG_OPERATIONS"
"""The environment variable that names another file."""

_VERSION = 2
_LOG = logging.getLogger(__name__)  # without other configuration, a warning goes to standard error

USUAL = Operations(
    hash=25e-9,
    move=6e-9,
    compare=3e-9,
    probe=20e-9,
    found=1e-9,
    copy=1.5e-9,
    take=1e-9,
    far=7e-9,
    grow=1e-9,
    call=12e-6,
    between=20e-9,
)
"""The prices of a machine of 2026."""


def kept_at() -> Path:
    """The file that holds them: in the user's cache folder, unless the environment names another."""
    if named := os.environ.get(PLACE):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "thalweg" / "operations.json"


def prices(path: Path | None = None) -> Operations:
    """The prices of this machine: those measured before, or else measured now and kept."""
    path = path or kept_at()
    if (kept := _read(path)) is not None:
        return kept
    from thalweg.cost.calibrate import measure  # takes a second to load, and is needed once

    _LOG.warning("measuring once what joins take on this machine, some seconds; kept in %s", path)
    measured = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        seconds = dict(zip(NAMES, measured.values, strict=True))
        about = {"version": _VERSION, "measured": date.today().isoformat(), "machine": platform.machine()}
        write_text(path, json.dumps({**about, "seconds": seconds}, indent=1) + "\n")
    except OSError:
        pass  # nowhere to keep them: they are measured again next time
    return measured


def _read(path: Path) -> Operations | None:
    """The prices in a file; None if it is missing, incomplete or of another version."""
    try:
        data = json.loads(path.read_text())
        if data["version"] != _VERSION or set(data["seconds"]) != set(NAMES):
            return None
        return Operations(**{name: float(data["seconds"][name]) for name in NAMES})
    except (OSError, ValueError, KeyError, TypeError):
        return None

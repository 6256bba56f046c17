"""What a run writes down about itself while it goes on: files that the page and the metrics are made of."""

from pathlib import Path

FOLDER = "_thalweg/live"
"""Where these files are in the output folder of a run."""


def status_file(out: Path) -> Path:
    """Whether the run goes on, and what it has said."""
    return out / FOLDER / "status.json"


def asked_file(out: Path) -> Path:
    """What the run was asked to do."""
    return out / FOLDER / "asked.json"


def operators_file(out: Path) -> Path:
    """The operators that it has now."""
    return out / FOLDER / "operators.json"

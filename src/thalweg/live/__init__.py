"""What a run writes down about itself while it goes on: files that the page and the metrics are made of."""

from thalweg.storage import Location

FOLDER = "_thalweg/live"
"""Where these files are in the output folder of a run."""


def status_file(out: Location) -> Location:
    """Whether the run goes on, and what it has said."""
    return out / FOLDER / "status.json"


def asked_file(out: Location) -> Location:
    """What the run was asked to do."""
    return out / FOLDER / "asked.json"


def operators_file(out: Location) -> Location:
    """The operators that it has now."""
    return out / FOLDER / "operators.json"

"""Runs several commands in one process, so that Spark starts once: `python -m thalweg.cli.series`.

Each line of standard input holds the arguments of a command. The first failure ends the series, with its
status.
"""

from __future__ import annotations

import shlex
import sys
from typing import TextIO

from thalweg.cli.main import invoke


def series(commands: TextIO) -> int:
    """Runs a command for each line as it arrives."""
    for line in iter(commands.readline, ""):
        if status := invoke(shlex.split(line)):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(series(sys.stdin))

"""Runs several commands in one process, so that Spark starts once: `python -m thalweg.cli.series`.

Each line of standard input holds the arguments of a command. The first failure ends the series, with its
status. If the process that writes the commands is killed, the one that runs is told to stop: a live run would
go on for ever.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TextIO

from thalweg.cli.main import invoke
from thalweg.processes import stop_without


def series(commands: TextIO) -> int:
    """Runs a command for each line as it arrives."""
    for line in iter(commands.readline, ""):
        if status := invoke(shlex.split(line)):
            return status
    return 0


if __name__ == "__main__":
    stop_without(os.getppid())
    sys.exit(series(sys.stdin))

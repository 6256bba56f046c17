"""Commands one after another in one process, so that Spark's start is paid for once: `python -m` this module.

A line of standard input is the arguments of a command. The first that fails ends it, with its exit status.
"""

from __future__ import annotations

import shlex
import sys
from typing import TextIO

from thalweg.cli.main import invoke


def series(commands: TextIO) -> int:
    """Runs a command for each line, as it comes."""
    for line in iter(commands.readline, ""):
        if status := invoke(shlex.split(line)):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(series(sys.stdin))

"""What a session asks of the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CHILD = """
import resource, sys
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from thalweg.errors import UserError
from thalweg.spark.session import allow_files
try:
    allow_files()
except UserError as error:
    print(error)
else:
    print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "told"),
    [
        (256, 4096, "(1024, 4096)"),
        (2048, 4096, "(2048, 4096)"),
        (256, 300, "a process may open 300 files at once, and Spark needs 1,024; raise the limit"),
    ],
)
def test_open_files(soft: int, hard: int, told: str) -> None:
    """With a few hundred, Spark ended without a word in the middle of a batch."""
    command = [sys.executable, "-c", _CHILD, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(told), done.stdout

"""Folders of one process: removed when it ends, however it ends, and by nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from thalweg import private
from thalweg.processes import Process

PROGRAM = """
import os, sys, time
from pathlib import Path
from thalweg import private
from thalweg.processes import Process

folder = private.path(Path(sys.argv[1]), "token")
assert private.make(folder, Process.of(os.getpid()))
private.remove_at_exit(folder)
if os.fork() == 0:
    sys.exit()  # with all that is done at an exit
os.wait()
print(folder.exists(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_folder_lives_as_long_as_its_process(tmp_path, killed):
    owner = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "True\n"
    folder = private.path(tmp_path, "token")
    private.remove_left(tmp_path)
    assert folder.exists()
    if killed:
        owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert folder.exists() == killed
    private.remove_left(tmp_path)
    assert not folder.exists()


def test_a_process_is_told_from_a_later_one_with_its_number():
    own = Process.of(os.getpid())
    assert own.alive
    assert Process.parse(str(own)) == own
    assert not own._replace(started=own.started + 1).alive
    assert not own._replace(where="elsewhere").is_here
    with pytest.raises(ValueError, match=r"unpack|literal"):
        Process.parse("1 2")

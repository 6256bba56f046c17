"""Commands one after another in one process."""

import io
import os
import subprocess
import sys

import psutil

from tests.conftest import environment
from thalweg.cli.series import series


def test_each_line_is_a_command_and_the_first_that_fails_ends_it(capsys):
    assert series(io.StringIO("planners --json\n--version\n")) == 0
    assert '"planners"' in capsys.readouterr().out
    assert series(io.StringIO("plan 'no such.sql' --catalog none.yaml\n--version\n")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("thalweg: ")


def test_it_stops_when_its_parent_is_killed():
    """Its input stays open: a live run that it runs would not notice the end of it anyway."""
    reads, writes = os.pipe()
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-m', 'thalweg.cli.series'], stdin={reads})\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment(), pass_fds=[reads]
    )
    child = psutil.Process(int(parent.stdout.readline()))
    while child.num_threads() < 2:  # until it watches
        assert child.is_running()
    parent.kill()
    parent.wait()
    child.wait(timeout=60)
    os.close(reads)
    os.close(writes)

"""Commands in the session that the tests share, which start far faster than in a process of their own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from pathlib import Path

import pytest

from tests.spark import remote
from thalweg.cli.main import invoke


@pytest.fixture(scope="session")
def thalweg(spark):
    """Runs `thalweg` in this process and its session: (exit status, standard output, standard error)."""
    if remote.wanted():
        pytest.skip("a command has a session of its own, which is classic")

    def run(*arguments: object, cwd: Path) -> tuple[int, str, str]:
        handlers = {told: signal.getsignal(told) for told in (signal.SIGINT, signal.SIGTERM)}
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("thalweg.spark.run.session", lambda *_, **__: spark)
            patch.setattr("thalweg.spark.folder.Folder.started", lambda *_: None)  # this JVM goes on
            patch.setattr(spark, "stop", lambda: None)
            patch.setitem(os.environ, "THALWEG_DEBUG", "0")
            patch.chdir(cwd)
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    status = invoke([str(a) for a in arguments])
            finally:
                for told, handler in handlers.items():
                    signal.signal(told, handler)
        return status, out.getvalue(), err.getvalue()

    return run

"""`thalweg run` with plans that take over from each other: which one after which batch is in changes.json.

As a program (in the folder of the place, with the arguments of the command) it can be killed, or kills itself
at a given point: the file `die` has a batch and a point.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from thalweg.cli.main import invoke
from thalweg.plan.document import Plan
from thalweg.plan.options import Emulated
from thalweg.spark import run as module
from thalweg.spark.program_files import Programs
from thalweg.spark.run import _Run

POINTS = ("before", "between", "after", "next", "next-after")
"""Where it can die: before a change, in the midst of it, after it; before and after the next batch."""

JITTER_S = 1.0


class Switching(_Run):
    """A run that changes its plan, over slow links; `pauses` are how long other queries took to go on."""

    pauses: ClassVar[list[float]] = []
    _stopped: float | None = None

    def run(self) -> dict[str, Any]:
        sites = sorted(self.options.catalog.sites)
        pairs = itertools.permutations(sites, 2)
        slow = tuple(Emulated(a, b, jitter_s=JITTER_S) for a, b in pairs)
        self.options = replace(self.options, emulated=slow)
        return super().run()

    def _adapting(self) -> Any:
        """Moves when it is told to, and never by itself."""
        adapting = super()._adapting()
        return adapting and replace(adapting, every_s=math.inf)

    def _sink(self, flow: Any, batch: int) -> None:
        if self._stopped is not None:
            self.pauses.append(time.monotonic() - self._stopped)
            self._stopped = None
        try:
            super()._sink(flow, batch)
        except Exception:
            self._stopped = time.monotonic()
            raise

    def _publish(self, flow: Any, batch: int) -> None:
        changes = json.loads(Path("changes.json").read_text())
        _die(batch - 1, "next")
        super()._publish(flow, batch)
        _die(batch - 1, "next-after")
        if str(batch) in changes:
            _die(batch, "before")
            put = Programs.put

            def late(of: Programs, first: int, program: Any) -> None:
                _die(batch, "between")
                put(of, first, program)

            Programs.put = late  # type: ignore[method-assign]
            try:
                self.plans.take_over(batch, Plan.load(Path(changes[str(batch)])))
            finally:
                Programs.put = put  # type: ignore[method-assign]
            _die(batch, "after")


def _die(batch: int, point: str) -> None:
    """Die here, but only once."""
    wish = Path("die")
    if wish.exists() and wish.read_text() == f"{batch} {point}":
        wish.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    module._Run = Switching  # type: ignore[misc]
    sys.exit(invoke(sys.argv[1:]))

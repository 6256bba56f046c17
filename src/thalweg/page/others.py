"""What each other planner would have cost, by what a run has measured. Found in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from thalweg import live
from thalweg.live.asked import Asked
from thalweg.plan.document import Plan
from thalweg.storage import Location, location

LIMIT_S = 300.0
"""So long all planners may take together."""
AGAIN_S = 120.0
"""They are asked again after so long."""
SOON_S = 10.0
"""And after so long, if they gave no answer."""


def compared(out: Location) -> dict[str, Any]:
    """The cost of each planner's plan for the queries of a run, by its statistics of now."""
    from thalweg.adapt.observed import Observed
    from thalweg.planners.compare import compare
    from thalweg.query import parse_over

    asked, plan = Asked.load(live.asked_file(out)), Plan.load(out / "plan.json")
    catalog = asked.catalog
    queries = [parse_over(catalog, q.text, name=q.query) for q in plan.queries]
    measured = Observed.load(out / "_thalweg" / "statistics.json").catalog(catalog, queries)
    options = replace(asked.planning, planner="auto", limit_s=5.0)
    return {"measured": measured is not None, **compare(queries, measured or catalog, options).to_json()}


class Others:
    """Asks again and again while somebody looks; what was found last is at hand at once."""

    def __init__(self, out: Location) -> None:
        self.out = out
        self.found: dict[str, Any] | None = None
        self._asked = -AGAIN_S
        self._lock = threading.Lock()

    def now(self) -> dict[str, Any] | None:
        """What was found last; asks anew if that is long ago."""
        with self._lock:
            if time.monotonic() - self._asked >= AGAIN_S:
                self._asked = time.monotonic()
                threading.Thread(target=self._ask, name="planners", daemon=True).start()
        return self.found

    def _ask(self) -> None:
        try:
            done = subprocess.run(
                [sys.executable, "-m", __name__, str(self.out.absolute())],
                capture_output=True,
                timeout=LIMIT_S,
                check=True,
            )
            self.found = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            # The run has just begun, or there are too many plans to look at.
            self._asked = time.monotonic() - AGAIN_S + SOON_S


if __name__ == "__main__":
    os.nice(10)  # the run is more important
    print(json.dumps(compared(location(sys.argv[1]))))

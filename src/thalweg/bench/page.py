"""What an open page costs a run: throughput with a visitor of its page and without, in turns.

The visitor is a process of its own. It gets what a browser gets, once a second over one connection, and
`/metrics` every second. It does not draw: that is the work of another machine.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from thalweg.bench.data import Workload
from thalweg.bench.sites import LARGE, rows_per_s
from thalweg.bench.watched import watched
from thalweg.page.serve import Access, beside

TURNS = 5
EVERY_S = 1.0


@dataclass
class Visited:
    """Rows a second of each turn, without a visitor and with one, and how often metrics were read."""

    off: list[float] = field(default_factory=list)
    on: list[float] = field(default_factory=list)
    scrapes: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(self.on) / median(self.off)


def measure(home: Path, say: Callable[[str], None], spec: Workload = LARGE, turns: int = TURNS) -> Visited:
    """Run the same join without and with a visitor, in turns."""
    found = Visited()

    @contextmanager
    def visited(out: Path) -> Iterator[None]:
        with beside(out, Access()) as url:
            command = [sys.executable, "-m", __name__, url]
            visitor = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                yield
            finally:
                told, _ = visitor.communicate("\n")
                found.scrapes.append(int(told))

    for turn in range(turns):
        say(f"no visitor, turn {turn + 1}")
        found.off.append(rows_per_s(watched(spec, "one", "simple", home)[0], spec))
        say(f"a visitor, turn {turn + 1}")
        found.on.append(rows_per_s(watched(spec, "one", "simple", home, beside=visited)[0], spec))
    return found


COLUMNS = ("", "measured", "wanted")


def rows(found: Visited) -> list[tuple[str, ...]]:
    """The figures beside what they must reach."""
    return [
        ("rows a second without a visitor", f"{median(found.off):,.0f}", ""),
        ("rows a second with the page open and metrics read every second", f"{median(found.on):,.0f}", ""),
        ("ratio", f"{found.ratio:.2f}", "at least 0.97"),
        ("times that metrics were read in a run", f"{median(found.scrapes):.0f}", ""),
    ]


def _visit(url: str) -> None:
    """Look at a page until a line comes; print how often metrics were read."""

    def watch() -> None:
        with urlopen(f"{url}/api/events") as events:
            for _ in events:
                pass

    ended = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        ended.set()

    for one in (watch, wait):
        threading.Thread(target=one, daemon=True).start()
    scrapes = 0
    while not ended.wait(EVERY_S):
        with suppress(OSError), urlopen(f"{url}/metrics") as answer:  # only what is answered counts
            scrapes += bool(answer.read())
    print(scrapes)


if __name__ == "__main__":
    _visit(sys.argv[1])

"""What of a run needs somebody's attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from thalweg.page.reading import Seen

SILENT_S = 30.0
"""A link is silent that has brought nothing for so long while the run goes on."""
SLOW = 3.0
"""A batch takes too long that takes so many times the usual time."""
SLOW_S = 1.0
"""And more than this in any case."""
HOLDS_S = 5.0
"""A stream holds others back that is so far behind them, beyond its lateness."""
FULL = 0.8
"""A link is nearly full that carries this share of what it can."""


@dataclass(frozen=True)
class Trouble:
    """One thing; `kind` is for programs, `text` for people."""

    level: Literal["error", "warning", "note"]
    kind: str
    subject: str
    text: str
    at: float | None = None


def found(seen: Seen, now: float) -> list[Trouble]:
    """All of it, the worst first."""
    every = [
        *_run(seen),
        *_batches(seen),
        *_links(seen, now),
        *_streams(seen),
        *_late(seen),
        *_said(seen),
    ]
    return sorted(every, key=lambda t: ("error", "warning", "note").index(t.level))


def _run(seen: Seen) -> Iterator[Trouble]:
    if seen.status.state == "lost":
        yield Trouble("error", "lost", "", "the run has ended without a word; the same command continues it")
    if seen.status.state == "failed":
        why = next((e.text for e in reversed(seen.status.events) if e.level == "error"), "")
        yield Trouble("error", "failed", "", why or "the run has failed", seen.status.ended)


def _batches(seen: Seen) -> Iterator[Trouble]:
    usual = median(p.seconds for p in seen.recent) if len(seen.recent) >= 5 else None
    last = seen.last
    if usual is not None and last.seconds > max(SLOW * usual, SLOW_S) and seen.goes_on:
        text = f"batch {last.batch:,} took {last.seconds:.1f} s, the usual one takes {usual:.1f} s"
        yield Trouble("warning", "slow-batch", str(last.batch), text, last.at)


def _links(seen: Seen, now: float) -> Iterator[Trouble]:
    if not seen.goes_on:
        return
    for way, counts in seen.last.sent.items():
        moved = next((p.at for p in reversed(seen.recent) if p.sent.get(way) != counts), None)
        since = seen.recent[0].at if moved is None else moved
        if now - since > SILENT_S and seen.last.at - since > SILENT_S:  # others have gone on
            source, target = way.split("-", 1)
            text = f"nothing has gone from {source} to {target} for {now - since:.0f} s"
            yield Trouble("note", "silent-link", way, text)


def holds_back(seen: Seen) -> dict[str, float]:
    """The seconds by which each stream keeps event time behind the stream that has come furthest.

    A stream that keeps within its lateness of the others holds nothing back.
    """
    streams = {} if seen.asked is None else seen.asked.catalog.streams
    newest = {s: t for s, t in seen.last.newest.items() if seen.last.bounds.get(s, 0) is not None}
    top = max(newest.values(), default=0)
    return {
        s: max(0.0, (top - t) / 1e6 - (streams[s].lateness / 1e6 if s in streams else 0.0))
        for s, t in newest.items()
    }


def _streams(seen: Seen) -> Iterator[Trouble]:
    if not seen.goes_on:
        return
    for stream, seconds in holds_back(seen).items():
        if seconds > HOLDS_S:
            text = f"stream {stream} holds the others back by {seconds:.0f} s"
            yield Trouble("warning", "holds-back", stream, text)
    for stream in seen.streams:
        if seen.last.batch >= 0 and stream not in seen.last.newest:
            yield Trouble("warning", "no-tuples", stream, f"stream {stream} has brought no tuple so far")


def _late(seen: Seen) -> Iterator[Trouble]:
    for stream, reasons in seen.last.late.items():
        read = seen.last.read.get(stream, 0)
        for reason, n in reasons.items():
            share = n / read if read else 1.0
            what = "late" if reason == "late" else f"kept aside ({reason})"
            level: Literal["warning", "note"] = "warning" if share > 0.01 or reason != "late" else "note"
            text = f"stream {stream}: {n:,} {'tuple' if n == 1 else 'tuples'} {what}, {share:.2%} of all"
            yield Trouble(level, "late", stream, text)


def _said(seen: Seen) -> Iterator[Trouble]:
    """Warnings of the run; its errors are told with its end."""
    for event in reversed(seen.status.events):
        if event.level == "warning":
            yield Trouble("warning", "said", "", event.text, event.at)

"""Emulated wide-area links: when a file that was sent arrives. Time is data here; no clock is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two sites; `Link()` emulates nothing. Nothing arrives during a cut.

    >>> slow = Link(latency_s=0.1, bytes_per_s=1000)
    >>> slow.passed(sent_at=5.0, size=500, before=slow.passed(sent_at=5.0, size=500))
    Passed(free_at=6.0, arrives_at=6.1)
    """

    latency_s: float = 0.0
    bytes_per_s: float | None = None
    jitter_s: float = 0.0
    cuts: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        rate = 1.0 if self.bytes_per_s is None else self.bytes_per_s
        spans = (self.latency_s, self.jitter_s, rate, *(t for cut in self.cuts for t in cut))
        if not all(isfinite(x) for x in spans) or min(self.latency_s, self.jitter_s) < 0 or rate <= 0:
            raise ValueError(f"no link is like this: {self}")
        if any(start >= end for start, end in self.cuts):
            raise ValueError(f"a cut ends before it begins: {self}")
        object.__setattr__(self, "cuts", tuple(sorted((start, end) for start, end in self.cuts)))

    def passed(
        self, *, sent_at: float, size: int, before: Passed | None = None, chance: float = 0.0
    ) -> Passed:
        """When a file arrives that was sent after `before`; `chance` (0 to 1) is its share of the jitter."""
        last = before or Passed(-inf, -inf)
        free = max(sent_at, last.free_at) + (size / self.bytes_per_s if self.bytes_per_s else 0.0)
        # Readers rely on the order: no file overtakes another.
        arrives = max(free + self.latency_s + self.jitter_s * chance, last.arrives_at)
        for start, end in self.cuts:
            if start <= arrives < end:
                arrives = end
        return Passed(free, arrives)


@dataclass(frozen=True, slots=True)
class Passed:
    """When the line is free for the next file, and when this file arrives."""

    free_at: float
    arrives_at: float


def chance(*seed: object) -> float:
    """A number from 0 to 1 that looks random and is always the same.

    >>> chance("run", 1) == chance("run", 1) != chance("run", 2)
    True
    """
    digest = hashlib.blake2b(repr(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / float(1 << 64)


def links_text(links: Mapping[str, Link]) -> str:
    """Links by edge as JSON, for an option of a data source."""
    return json.dumps({edge: asdict(link) for edge, link in sorted(links.items())})


def links_of(text: str) -> dict[str, Link]:
    """The inverse of `links_text`.

    >>> links_of(links_text({"a-b": Link(0.5, cuts=((1.0, 2.0),))}))["a-b"].cuts
    ((1.0, 2.0),)
    """
    known = {field.name for field in fields(Link)}
    links: dict[str, Link] = {}
    for edge, said in json.loads(text).items():
        if unknown := sorted(set(said) - known):
            raise ValueError(f"links have no {', '.join(unknown)}; they have {', '.join(sorted(known))}")
        cuts = tuple((start, end) for start, end in said.get("cuts", ()))
        links[edge] = Link(**{**said, "cuts": cuts})
    return links

"""What tests of the overflowing join share: random streams, a driver, and the rule by brute force."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.kernel.nway import Delta, InputSpec, others
from thalweg.kernel.window import NEVER
from thalweg.reproduce.overflow_join.join import Joined, OverflowJoin


class Row(NamedTuple):
    """A tuple: its name is also its key where words are hashes."""

    word: int
    text: str
    start: int
    end: int
    id: int


COLUMNS = (("id", pa.int64()), ("text", pa.string()))


def spec(name: str, span: int | None) -> InputSpec:
    return InputSpec(name, COLUMNS, span, key_columns=(1,))


def delta(rows: Sequence[Row], span: int | None) -> Delta | None:
    if not rows:
        return None
    rows = sorted(rows, key=lambda r: r.start)
    word, text, start, end, ids = zip(*rows, strict=True)
    ends = np.array(end, np.int64) if span is None else None
    columns = (pa.array(ids, pa.int64()), pa.array(text, pa.string()))
    return Delta(np.array(word, np.int64), np.array(start, np.int64), ends, columns)


Result = tuple[tuple[int, ...], int, int]


def brute(streams: Sequence[Sequence[Row]]) -> Counter[Result]:
    """Every combination of one tuple of each stream with equal keys, alive at the same moment."""
    by_key: list[dict[str, list[Row]]] = []
    for rows in streams:
        groups = defaultdict(list)
        for row in rows:
            groups[row.text].append(row)
        by_key.append(groups)
    found: Counter[Result] = Counter()
    for key, first in by_key[0].items():
        for members in itertools.product(first, *(groups.get(key, []) for groups in by_key[1:])):
            start, end = max(m.start for m in members), min(m.end for m in members)
            if start <= end:
                found[tuple(m.id for m in members), start, end] += 1
    return found


def results(joined: Iterable[Joined]) -> list[Result]:
    out: list[Result] = []
    for j in joined:
        for texts in zip(*(member[1].to_pylist() for member in j.columns), strict=True):
            assert len(set(texts)) == 1
        ids = zip(*(member[0].to_pylist() for member in j.columns), strict=True)
        out += zip(ids, j.start.tolist(), j.end.tolist(), strict=True)
    return out


@dataclass
class Run:
    """What came out of an operator, by phase, and how it did."""

    found: Counter[Result] = field(default_factory=Counter)
    phases: list[Counter[Result]] = field(default_factory=lambda: [Counter(), Counter(), Counter()])

    def add(self, joined: Iterable[Joined]) -> list[Result]:
        got = []
        for j in joined:
            one = results([j])
            self.found.update(one)
            self.phases[j.phase - 1].update(one)
            got += one
        return got


def within_budget(join: OverflowJoin) -> None:
    """The bytes in memory are counted right, and no more than allowed."""
    for budget, pool in join.budgets:
        assert join.held[pool].sum() <= budget
    for i, window in enumerate(join.memory.join.windows):
        texts = window.columns[1]
        alive = window.rows
        assert join.memory.bytes[i] == len(alive) * (
            24 + 8 * (window.span is None) + 8 + 12 + 8
        ) + texts.size(alive)


def drive(
    join: OverflowJoin, streams: Sequence[Sequence[Row]], rng: random.Random, *, idle: float = 0.2
) -> Run:
    """Push all tuples in random batches with idle steps between, then finish."""
    run = Run()
    left = [list(rows) for rows in streams]
    while any(left):
        batch = []
        for i, rows in enumerate(left):
            n = rng.choice([0, 0, 1, 3, 12])
            batch.append(delta(rows[:n], join.inputs[i].span))
            left[i] = rows[n:]
        run.add(join.push(batch))
        within_budget(join)
        while rng.random() < idle:
            run.add(join.idle())
            within_budget(join)
    run.add(join.finish())
    assert join.disk.folder.names() == set()
    assert [sum(p.values()) for p in run.phases] == join.counters.phases
    return run


def drive_live(
    join: OverflowJoin, streams: Sequence[Sequence[Row]], rng: random.Random, *, idle: float = 0.2
) -> Run:
    """Push all tuples with bounds between that are as high as they can be, until all has expired."""
    run, delay, clock = Run(), join.delay, -(1 << 40)
    left = [list(rows) for rows in streams]

    def came(joined: Iterable[Joined]) -> None:
        for _, start, _ in run.add(joined):
            # It was not due when bounds last moved.
            assert delay is None or start + delay >= clock

    while any(left):
        batch = []
        for i, rows in enumerate(left):
            n = rng.choice([0, 1, 3, 12])
            batch.append(delta(rows[:n], join.inputs[i].span))
            left[i] = rows[n:]
        came(join.push(batch))
        within_budget(join)
        while rng.random() < idle:
            came(join.idle())
        if rng.random() < 0.8:
            bounds = [min((r.start for r in rows), default=NEVER) for rows in left]
            came(join.expire(bounds))
            clock = min(bounds)
            within_budget(join)
            only_what_is_needed(join, bounds)
    return run


def only_what_is_needed(join: OverflowJoin, bounds: Sequence[int]) -> None:
    """Every file has a tuple that is alive, or with which a result is still owed that is not too late."""
    listed = set()
    for (i, partition), files in join.disk._files.items():
        assert sum(f.spilled.rows for f in files) <= join.disk.rows[i, partition]
        for file in files:
            listed.add(file.spilled.name)
            owed = int(join._ledger.since[partition])
            assert file.last_end >= min(others(bounds, i), owed)
            assert join.delay is None or owed + join.delay >= min(bounds)
    assert join.disk.folder.names() == listed

"""Random streams through the overflowing join, against the rule by brute force and against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.reproduce.overflow_join.cases import (
    COLUMNS,
    Result,
    Row,
    Run,
    brute,
    delta,
    drive,
    drive_live,
    spec,
)
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.reproduce.overflow_join.join import Joined, OverflowJoin, Policy


def random_streams(
    rng: random.Random, spans: list[int | None], tuples: int, spread: int, disorder: int
) -> list[list[Row]]:
    """Tuples with ties, out of order by so much; the words are hashes, which several keys share."""
    keys, words = rng.choice([1, 3, 10, 40]) if tuples < 30 else rng.choice([10, 40]), rng.choice([1, 4, 100])
    streams = []
    for span in spans:
        rows = []
        for i in range(tuples):
            key, start = rng.randrange(keys), rng.randrange(spread)
            end = start + (span if span is not None else rng.choice([0, 5, 100]))
            rows.append(Row(key % words, "k" * (key % 3) + str(key), start, end, i))
        streams.append(sorted(rows, key=lambda r: r.start + rng.randrange(disorder + 1)))
    return streams


def operator(rng: random.Random, spans: list[int | None], tuples: int, folder: Path, **more) -> OverflowJoin:
    budget: int | list[int] = int(rng.choice([0, 0.1, 0.3, 0.5, 0.7, 1.5]) * 70 * tuples)
    if rng.random() < 0.2:
        budget = [rng.choice([0, 1, 2, 5, 12]) * 70 for _ in spans]
    return OverflowJoin(
        [spec(str(i), s) for i, s in enumerate(spans)],
        SpillFolder(folder),
        budget=budget,
        policy=rng.choice(["random", "coordinated"]),
        partitions=rng.choice([1, 2, 7]),
        probing=rng.choice(["measured", "worst"]),
        keep=rng.choice([0, 0.5, 0.9, 1.0]),
        seed=rng.randrange(1000),
        **more,
    )


def finite(seed: int, folder: Path, most: int = 60) -> None:
    rng = random.Random(seed)
    inputs = rng.choice([2, 3, 3, 4])
    spans = [rng.choice([5, 50, NEVER, NEVER, None]) for _ in range(inputs)]
    each = rng.randrange(most // inputs)
    streams = random_streams(rng, spans, each, rng.choice([3, 30, 300]), 300)
    join = operator(rng, spans, inputs * each, folder)
    run = drive(join, streams, rng, idle=rng.choice([0, 0.2, 0.7]))
    assert run.found == brute(streams)


def live(seed: int, folder: Path, most: int = 150) -> None:
    rng = random.Random(seed)
    inputs = rng.choice([2, 3, 3, 4])
    spans = [rng.choice([0, 20, 60, 60, None]) for _ in range(inputs)]
    each, spread = rng.randrange(most // inputs), rng.choice([30, 300])
    streams = random_streams(rng, spans, each, spread, rng.choice([0, 3, 30]))
    alive = inputs * each * 60 // max(60, spread)
    join = operator(rng, spans, alive, folder, delay=rng.choice([0, 4, 30, 30, None]))
    run = drive_live(join, streams, rng, idle=rng.choice([0, 0.3, 0.7]))
    run.add(join.expire([NEVER] * inputs))
    assert join.disk.folder.names() == set()
    assert join.held.sum() == 0
    assert run.found == brute(streams)


@pytest.mark.parametrize("block", range(5))
def test_finite_inputs_give_each_result_once(block: int, tmp_path: Path) -> None:
    for seed in range(block * 20, block * 20 + 20):
        finite(seed, tmp_path / str(seed))


@pytest.mark.parametrize("block", range(5))
def test_live_windows_give_each_result_once_and_in_time(block: int, tmp_path: Path) -> None:
    for seed in range(block * 15, block * 15 + 15):
        live(seed, tmp_path / str(seed))


def by_duckdb(streams: list[list[Row]]) -> Counter[Result]:
    names = [f"s{i}" for i in range(len(streams))]
    with duckdb.connect() as connection:
        for name, rows in zip(names, streams, strict=True):
            columns = map(list, zip(*rows, strict=True))
            connection.register(name, pa.table(dict(zip(Row._fields, columns, strict=True))))
        starts, ends, ids = (", ".join(f"{n}.{c}" for n in names) for c in ("start", '"end"', "id"))
        using = " and ".join(f"s0.text = {n}.text" for n in names[1:])
        rows = connection.execute(
            f"select {ids}, greatest({starts}), least({ends}) from {', '.join(names)} "
            f"where {using} and greatest({starts}) <= least({ends})"
        ).fetchall()
    return Counter((tuple(r[:-2]), r[-2], r[-1]) for r in rows)


@pytest.mark.parametrize("policy", ["random", "coordinated"])
@pytest.mark.parametrize("span", [NEVER, 300])
@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_duckdb_gives_the_same(policy: Policy, span: int, inputs: int, tmp_path: Path) -> None:
    """Streams too large for brute force, with strings as keys of which several share a word."""
    rng = random.Random(inputs)
    streams = []
    for _ in range(inputs):
        rows = []
        for i in range(800):
            key, start = rng.randrange(300 if span == NEVER else 100), i + rng.randrange(20)
            rows.append(Row(key // 2, f"key {key}", start, start + span, i))
        streams.append(rows)
    join = OverflowJoin(
        [spec(str(i), span) for i in range(inputs)],
        SpillFolder(tmp_path),
        budget=inputs * min(800, span) * 60 // 4,
        policy=policy,
        partitions=5,
        delay=None if span == NEVER else 100,
    )
    if span == NEVER:
        run = drive(join, streams, rng)
    else:
        run = drive_live(join, streams, rng)
        run.add(join.finish())
    assert run.found == by_duckdb(streams)
    assert run.found.total() > 1000
    assert all(run.phases) or policy == "coordinated"


class Tree:
    """Two-input operators one on another, the results of each being the first input of the next."""

    def __init__(
        self, rng: random.Random, spans: list[int | None], tuples: int, folder: Path, **more
    ) -> None:
        self.joins = []
        for depth in range(1, len(spans)):
            join = operator(rng, [spans[0], spans[depth]], tuples, folder / str(depth), **more)
            if depth > 1:
                left = InputSpec("left", COLUMNS * depth, None, key_columns=(1,))
                join = OverflowJoin(
                    [left, spec("right", spans[depth])],
                    join.disk.folder,
                    budget=rng.choice([1000, 10_000, 100_000]),
                    policy=join.policy,
                    partitions=join.partitions,
                    delay=join.delay,
                )
            self.joins.append(join)

    def through(self, depth: int, joined: Iterable[Joined]) -> Iterator[Joined]:
        """What comes out at the top of results of the operator at this depth."""
        for j in joined:
            if depth + 1 == len(self.joins):
                flat = [c for member in j.columns for c in member]
                yield replace(j, columns=tuple(zip(flat[::2], flat[1::2], strict=True)))
            else:
                yield from self.through(depth + 1, self.joins[depth + 1].push([j.delta(), None]))

    def push(self, batch: list[Delta | None]) -> Iterator[Joined]:
        yield from self.through(0, self.joins[0].push(batch[:2]))
        for depth, new in enumerate(batch[2:], 1):
            yield from self.through(depth, self.joins[depth].push([None, new]))

    def expire(self, bounds: list[int]) -> Iterator[Joined]:
        low = bounds[0]
        for depth, join in enumerate(self.joins):
            yield from self.through(depth, join.expire([low, bounds[depth + 1]]))
            low = join.bound([low, bounds[depth + 1]])

    def idle(self) -> Iterator[Joined]:
        for depth, join in enumerate(self.joins):
            yield from self.through(depth, join.idle())

    def finish(self) -> Iterator[Joined]:
        for depth, join in enumerate(self.joins):
            yield from self.through(depth, join.finish())


@pytest.mark.parametrize("seed", range(25))
def test_a_tree_of_two_input_operators_gives_the_same_as_one(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    inputs, bounded = rng.choice([3, 4]), rng.random() < 0.6
    spans: list[int | None] = [rng.choice([5, 20, 60] if bounded else [20, NEVER]) for _ in range(inputs)]
    each = 60 // inputs - 5
    streams = random_streams(rng, spans, each, rng.choice([30, 200]), 10)
    one = operator(rng, spans, each * inputs, tmp_path / "one", delay=10)
    tree = Tree(rng, spans, 50, tmp_path / "tree", delay=10)
    runs = (Run(), Run())
    left = [list(rows) for rows in streams]
    while any(left):
        batch = [delta(rows[:3], span) for rows, span in zip(left, spans, strict=True)]
        left = [rows[3:] for rows in left]
        bounds = [min((r.start for r in rows), default=NEVER) for rows in left]
        for run, join in zip(runs, (one, tree), strict=True):
            run.add(join.push(batch))
            run.add(join.idle())
            run.add(join.expire(bounds))
    for run, join in zip(runs, (one, tree), strict=True):
        run.add(join.finish())
    assert runs[0].found == runs[1].found == brute(streams)


@pytest.mark.long
@pytest.mark.parametrize("case", [finite, live])
def test_many_more_of_the_same(case, tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        case(seed, tmp_path / str(seed), random.Random(seed).choice([20, 100, 300]))

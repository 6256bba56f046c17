"""Random streams through the overflowing join, against the rule by brute force and against DuckDB."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kernel.overflowing import Row, brute, drive, drive_live, spec
from thalweg.kernel.overflow import OverflowJoin
from thalweg.kernel.spill import SpillFolder
from thalweg.kernel.window import NEVER


def random_streams(
    rng: random.Random, spans: list[int | None], tuples: int, spread: int, disorder: int
) -> list[list[Row]]:
    """Tuples with ties, out of order by so much; the words are hashes, which several keys share."""
    keys, words = rng.choice([1, 3, 10, 40]), rng.choice([1, 4, 100])
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
    spans = [rng.choice([0, 5, 20, 60, None]) for _ in range(inputs)]
    each, spread = rng.randrange(most // inputs), rng.choice([30, 300])
    streams = random_streams(rng, spans, each, spread, rng.choice([0, 3, 30]))
    alive = inputs * each * 40 // spread
    join = operator(rng, spans, alive, folder, delay=rng.choice([0, 4, 30, None]))
    run = drive_live(join, streams, rng)
    run.add(join.expire([NEVER] * inputs))
    assert join.disk.folder.names() == set()
    assert join.held.sum() == 0
    assert run.found == brute(streams)


@pytest.mark.parametrize("block", range(10))
def test_finite_inputs_give_each_result_once(block: int, tmp_path: Path) -> None:
    for seed in range(block * 30, block * 30 + 30):
        finite(seed, tmp_path / str(seed))


@pytest.mark.parametrize("block", range(10))
def test_live_windows_give_each_result_once_and_in_time(block: int, tmp_path: Path) -> None:
    for seed in range(block * 30, block * 30 + 30):
        live(seed, tmp_path / str(seed))


@pytest.mark.long
@pytest.mark.parametrize("case", [finite, live])
def test_many_more_of_the_same(case, tmp_path: Path) -> None:
    for seed in range(1000, 6000):
        case(seed, tmp_path / str(seed), random.Random(seed).choice([20, 100, 300]))

"""Random streams through the overflowing join, against the rule."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kernel.overflowing import Row, brute, drive, spec
from thalweg.kernel.overflow import OverflowJoin
from thalweg.kernel.spill import SpillFolder
from thalweg.kernel.window import NEVER


def random_streams(rng: random.Random, spans: list[int | None], tuples: int) -> list[list[Row]]:
    """Unordered tuples with ties; words are hashes of four values, so that many texts share one."""
    keys, spread = rng.choice([1, 3, 10, 40]), rng.choice([3, 30, 300])
    streams = []
    for span in spans:
        rows = []
        for i in range(tuples):
            key, start = rng.randrange(keys), rng.randrange(spread)
            end = start + (span if span is not None else rng.choice([0, 5, 100, NEVER]))
            rows.append(Row(key % 4, "k" * (key % 3) + str(key), start, end, i))
        streams.append(rows)
    return streams


def one_case(seed: int, folder: Path, largest: int = 40) -> None:
    rng = random.Random(seed)
    inputs = rng.choice([2, 3, 3, 4])
    spans = [rng.choice([0, 5, 50, NEVER, None]) for _ in range(inputs)]
    streams = random_streams(rng, spans, rng.randrange(largest // inputs))
    total = 70 * inputs * max(map(len, streams))
    share = rng.choice([0, 0.1, 0.3, 0.6, 1.5])
    budget: int | list[int] = int(share * total)
    if rng.random() < 0.2:
        budget = [rng.choice([0, 1, 2, 5]) * 70 for _ in spans]
    join = OverflowJoin(
        [spec(str(i), s) for i, s in enumerate(spans)],
        SpillFolder(folder),
        budget=budget,
        policy=rng.choice(["random", "coordinated"]),
        partitions=rng.choice([1, 2, 7]),
        probing=rng.choice(["measured", "worst"]),
        keep=rng.choice([0, 0.5, 0.9, 1.0]),
        seed=seed,
    )
    run = drive(join, streams, rng, idle=rng.choice([0, 0.2, 0.7]))
    assert run.found == brute(streams)


@pytest.mark.parametrize("block", range(10))
def test_finite_inputs_give_each_result_once(block: int, tmp_path: Path) -> None:
    for seed in range(block * 30, block * 30 + 30):
        one_case(seed, tmp_path / str(seed))

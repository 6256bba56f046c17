"""The overflowing join step by step: which tuples are where, and which result comes out in which phase."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from thalweg.errors import UserError
from thalweg.kernel.keys import buckets
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.spill_files import SpillFolder
from thalweg.kernel.window import NEVER
from thalweg.reproduce.overflow_join.budget import fixed_bytes
from thalweg.reproduce.overflow_join.join import Joined, OverflowJoin
from thalweg.reproduce.overflow_join.together import Probe, propagated


class Steps:
    """An operator that gets a tuple at a tick: a letter, which is its key, and the tick of its arrival."""

    def __init__(self, folder: Path, buffer: int, probing: Sequence[Sequence[int]] | None = None) -> None:
        inputs = [InputSpec(f"S{i + 1}", (("letter", pa.int64()),), NEVER) for i in range(3)]
        room = buffer * (fixed_bytes(inputs[0]) + 8)
        # An input whose buffer is full is flushed as a whole, as by section 2.4.
        self.join = OverflowJoin(
            inputs,
            SpillFolder(folder),
            budget=[room] * 3,
            policy="random",
            partitions=1,
            probing=probing or "measured",
            keep=0,
        )

    def arrives(self, stream: int, letter: str, tick: int) -> list[tuple[int, set[str]]]:
        while self.join.tick < tick:
            assert list(self.join.push([None] * 3)) == []
        deltas: list[Delta | None] = [None] * 3
        deltas[stream - 1] = Delta(np.array([ord(letter)]), np.array([tick]), None, (pa.array([tick]),))
        return self.seen(self.join.push(deltas))

    def probes(self, stream: int, tick: int) -> list[tuple[int, set[str]]]:
        while self.join.tick < tick:
            assert list(self.join.push([None] * 3)) == []
        return self.seen(self.join.idle((stream - 1, 0)))

    def seen(self, joined) -> list[tuple[int, set[str]]]:
        out = []
        for j in joined:
            members = zip(*(m[0].to_pylist() for m in j.columns), strict=True)
            for key, arrivals in zip(j.key.tolist(), members, strict=True):
                out.append((j.phase, {chr(key) + str(a) for a in arrivals}))
        return out

    def memory(self, stream: int) -> set[str]:
        window = self.join.memory.join.windows[stream - 1]
        names = zip(window.keys(window.rows).tolist(), window.starts(window.rows).tolist(), strict=True)
        return {f"{chr(key)}{start}" for key, start in names}

    def disk(self, stream: int) -> set[str]:
        t = self.join.disk.load(stream - 1, 0)
        columns = (t.delta.key.tolist(), t.arrival.tolist(), t.departure.tolist())
        return {f"{chr(k)}{a}-{d}" for k, a, d in zip(*columns, strict=True)}


def scenario(folder: Path, third: Sequence[int]) -> Steps:
    """Section 2.7 up to tick 14: one partition a stream, two tuples a buffer, and no result yet."""
    steps = Steps(folder, 2, [[1, 2], [0, 2], third])
    arrivals = ["3a", "3c", "3e", "2d", "3g", "1d", "2c", "2b", "1a", "1b", "1d", "3a", "3c", "3e", "2f"]
    for tick, (stream, letter) in enumerate(arrivals):
        assert steps.arrives(int(stream), letter, tick) == []
    return steps


def test_the_scenario_of_section_2_7(tmp_path: Path) -> None:
    steps = scenario(tmp_path, [0, 1])
    assert [steps.memory(s) for s in (1, 2, 3)] == [{"b9", "d10"}, {"b7", "f14"}, {"e13"}]
    assert steps.disk(1) == {"d5-9", "a8-9"}
    assert steps.disk(2) == {"d3-7", "c6-7"}
    assert steps.disk(3) == {"a0-2", "c1-2", "e2-11", "g4-11", "a11-13", "c12-13"}

    # Two tuples of S3: f meets nothing; b overflows S3 and gives one result.
    assert steps.arrives(3, "f", 15) == []
    assert steps.memory(3) == {"e13", "f15"}
    assert steps.arrives(3, "b", 16) == [(1, {"b9", "b7", "b16"})]
    assert steps.memory(3) == {"b16"}
    assert {"e13-16", "f15-16"} < steps.disk(3)

    # Then d; the inputs block, and the disk part of S2 probes S1 and S3.
    assert steps.arrives(3, "d", 17) == []
    assert [steps.memory(s) for s in (1, 2, 3)] == [{"b9", "d10"}, {"b7", "f14"}, {"b16", "d17"}]
    assert steps.probes(2, 18) == [(2, {"d10", "d3", "d17"})]
    assert steps.probes(2, 19) == []  # not again

    # The end of all streams: of the two results with d, one has come out before.
    assert steps.seen(steps.join.finish()) == [(3, {"d5", "d3", "d17"})]
    assert steps.join.counters.phases == [1, 1, 1]
    assert steps.join.disk.folder.names() == set()


@pytest.mark.parametrize(("third", "temporary"), [([0, 1], 0), ([1, 0], 1)])
def test_the_probing_sequence_decides_on_temporary_tuples(
    third: list[int], temporary: int, tmp_path: Path
) -> None:
    """In 2.7, f at tick 15 makes none by {S1, S2}, and {f14, f15} by {S2, S1}."""
    steps = scenario(tmp_path, third)
    before = steps.join.counters.comparisons
    assert steps.arrives(3, "f", 15) == []
    assert steps.join.counters.comparisons - before == temporary


def test_pairs_that_met_at_different_moments_are_no_triple(tmp_path: Path) -> None:
    """T1 on disk, T2 in memory over [5, 12], T3 over [11, 20], T1's partition probes at 10 and at 15."""
    steps = Steps(tmp_path, 1)
    assert steps.arrives(1, "t", 1) == []
    assert steps.arrives(1, "x", 4) == []  # T1 leaves memory, and x after it
    assert steps.arrives(2, "t", 5) == []
    assert steps.arrives(1, "x", 9) == []
    assert steps.probes(1, 10) == []
    assert steps.arrives(3, "t", 11) == []
    assert steps.arrives(2, "y", 12) == []
    assert steps.arrives(1, "x", 14) == []
    assert steps.probes(1, 15) == []
    assert steps.arrives(3, "z", 20) == []
    assert {"t1-4"} < steps.disk(1)
    assert (steps.disk(2), steps.disk(3)) == ({"t5-12"}, {"t11-20"})

    # By the test of section 2.6, every pair has been propagated.
    arrival, departure = {1: 1, 2: 5, 3: 11}, {1: 4, 2: 12, 3: 20}
    probes, latest = [10, 15], 14

    def pair(i: int, j: int) -> bool:
        together = arrival[j] < arrival[i] < departure[j]
        probed = any(arrival[j] < p < departure[j] and latest > arrival[j] for p in probes)
        return together or (i == 1 and probed)

    assert all(pair(i, j) or pair(j, i) for i, j in itertools.combinations((1, 2, 3), 2))
    assert steps.seen(steps.join.finish()) == [(3, {"t1", "t5", "t11"})]


def test_what_a_visit_has_put_out_no_probe_does(tmp_path: Path) -> None:
    steps = Steps(tmp_path, 2)
    steps.join.delay = 0
    for tick, (stream, letter) in enumerate(["1t", "1x", "1x", "2t", "3t"]):
        assert steps.arrives(int(stream), letter, tick) == []
    assert steps.disk(1) == {"t0-2", "x1-2"}
    assert steps.seen(steps.join.expire([5, 5, 5])) == [(3, {"t0", "t3", "t4"})]
    assert steps.arrives(2, "y", 6) == []  # something may be missing again, so that a probe is worth it
    assert steps.probes(1, 7) == []
    assert steps.join.counters.results == 2  # it was found, and left out
    assert steps.seen(steps.join.finish()) == []


def test_a_result_is_out_when_all_its_members_were_together_once() -> None:
    """Random ticks of two or three members, and what happened at each tick told one by one."""
    rng = random.Random(1)
    for _ in range(3000):
        n = rng.choice([2, 3])
        arrival = [rng.randrange(5) for _ in range(n)]
        departure = [rng.choice([a, rng.randrange(a, 6), NEVER]) for a in arrival]
        probes = [Probe(rng.randrange(5), rng.randrange(n)) for _ in range(rng.randrange(3))]
        inside = [[a <= t < d for t in range(6)] for a, d in zip(arrival, departure, strict=True)]
        out = any(t in arrival and all(m[t] for m in inside) and t == max(arrival) for t in range(6))
        for tick, i in probes:
            out |= departure[i] <= tick and all(inside[j][tick] for j in range(n) if j != i)
        told = propagated(
            [np.array([a]) for a in arrival],
            [np.array([d]) for d in departure],
            0,
            probes,
        )
        assert told.tolist() == [out], (arrival, departure, probes)


def test_a_tuple_left_in_a_buffer_by_an_idle_visit_expires(tmp_path: Path) -> None:
    """Found by a random case: nothing was missing of its partition any more, so nobody looked at it."""
    inputs = [InputSpec(c, (("id", pa.int64()),), 10) for c in "ab"]
    room = 2 * (fixed_bytes(inputs[0]) + 8)
    folder = SpillFolder(tmp_path)
    join = OverflowJoin(inputs, folder, budget=room, policy="coordinated", partitions=1, keep=0)

    def one(moment: int) -> Delta:
        return Delta(np.array([1]), np.array([moment]), None, (pa.array([moment]),))

    for moment in range(3):
        assert list(join.push([one(moment), None])) == []
    assert list(join.push([None, one(3)])) == []
    assert join.disk.buffered.sum() == room  # the first two are in files
    assert [(j.phase, len(j)) for j in join.idle()] == [(2, 3)]
    assert list(join.expire([50, 50])) == []
    assert join.held.sum() == 0 and folder.names() == set()


def test_a_tuple_larger_than_the_budget_never_is_in_memory(tmp_path: Path) -> None:
    inputs = [InputSpec(c, (("text", pa.string()),), NEVER) for c in "ab"]
    join = OverflowJoin(inputs, SpillFolder(tmp_path), budget=100, policy="random", partitions=2)

    def one(text: str) -> Delta:
        return Delta(np.array([1]), np.array([0]), None, (pa.array([text]),))

    assert list(join.push([one("x" * 1000), None])) == []
    assert join.held.sum() == 0
    assert list(join.push([None, one("y")])) == []
    assert [j.columns[0][0].to_pylist() for j in join.idle()] == [["x" * 1000]]
    assert list(join.finish()) == []


def test_a_tuple_that_has_no_room_takes_its_partition_to_disk(tmp_path: Path) -> None:
    """What is in memory of a partition would else expire before it has met what is on disk."""
    inputs = [InputSpec(c, (("id", pa.int64()),), 10) for c in "ab"]
    join = OverflowJoin(inputs, SpillFolder(tmp_path), budget=[0, 1000], policy="coordinated", partitions=2)

    def one(moment: int) -> Delta:
        return Delta(np.array([1]), np.array([moment]), None, (pa.array([moment]),))

    assert list(join.push([None, one(0)])) == []
    assert list(join.push([one(5), None])) == []
    assert join.held.sum() == 0
    assert list(join.expire([12, 12])) == []
    assert [(j.start.tolist(), j.end.tolist()) for j in join.expire([50, 50])] == [([5], [10])]


def test_what_arrives_in_a_partition_on_disk_is_not_probed(tmp_path: Path) -> None:
    """Coordinated: a partition goes as a whole, of every input, before the next one begins."""
    inputs = [InputSpec(c, (("id", pa.int64()),), NEVER) for c in "abc"]
    size = fixed_bytes(inputs[0]) + 8
    join = OverflowJoin(inputs, SpillFolder(tmp_path), budget=300 * size, policy="coordinated", partitions=4)
    keys = np.arange(1000)
    found: list[Joined] = []
    for step in range(20):
        batch = keys[step * 10 : step * 10 + 10]
        found += join.push([Delta(batch, batch, None, (pa.array(batch),)) for _ in inputs])
        on_disk = np.flatnonzero(join.disk.present)
        assert on_disk.tolist() == list(range(len(on_disk)))  # one after another
        for window in join.memory.join.windows:
            held = np.unique(buckets(window.keys(window.rows), 4))
            assert not set(held) & set(on_disk)
    assert 0 < len(on_disk) < 4
    before = join.counters.comparisons, join.counters.hashes
    gone = keys[:200][np.isin(buckets(keys[:200], 4), on_disk)][:5]
    assert list(join.push([Delta(gone, gone, None, (pa.array(gone),)), None, None])) == []
    assert (join.counters.comparisons, join.counters.hashes) == before
    found += join.finish()
    assert sum(map(len, found)) == 200 + 5


def test_after_a_burst_partitions_come_back_to_memory(tmp_path: Path) -> None:
    """A live stream never leaves a partition empty, so nothing would ever come back by itself."""
    inputs = [InputSpec(c, (("id", pa.int64()),), 100) for c in "abc"]
    budget = 3 * 300 * (fixed_bytes(inputs[0]) + 8)
    folder = SpillFolder(tmp_path)
    join = OverflowJoin(inputs, folder, budget=budget, policy="coordinated", partitions=8, delay=50)
    rng = np.random.default_rng(1)
    on_disk, late = [], []
    for step in range(60):
        each = 100 if 20 <= step < 30 else 10  # so many tuples in ten moments: the window has 110, or 1,100
        before = join.counters.phases[2]
        for _ in join.push([_delta(rng, step * 10, each) for _ in inputs]):
            pass
        for _ in join.expire([step * 10 + 10] * 3):
            pass
        assert join.held.sum() <= budget
        on_disk.append(int(join.disk.present.sum()))
        late.append(join.counters.phases[2] - before)
    assert on_disk[19] == 0 and on_disk[29] > 4
    assert on_disk[-1] == 0 and folder.names() == set()
    assert sum(late[20:40]) > 0 and late[-1] == 0


def _delta(rng: np.random.Generator, begin: int, count: int) -> Delta:
    start = np.sort(rng.integers(begin, begin + 10, count))
    return Delta(rng.integers(0, 50, count), start, None, (pa.array(start),))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    steps = scenario(tmp_path, [0, 1])
    name = sorted(steps.join.disk.folder.names())[0]
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=name):
        list(steps.join.finish())

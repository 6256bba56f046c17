"""The kernel against the rule, with what only the kernel decides: chunks, slices, growth, wrong hashes."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.kernel import nway, probe
from thalweg.kernel.keys import buckets, combine, comparable, is_exact, words
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin
from thalweg.kernel.window import NEVER


def delta(keys, starts, ids, text=False) -> Delta:
    columns = [pa.array(ids, pa.int64())]
    if text:
        columns.append(pa.array([str(k) for k in keys], pa.string()))
    return Delta(np.array(keys, np.int64), np.array(starts, np.int64), None, tuple(columns)).ordered()


def ids(join: NWayJoin, found) -> list[tuple[int, ...]]:
    taken = [w.columns[0].take(r).to_pylist() for w, r in zip(join.windows, found.rows, strict=True)]
    return list(zip(*taken, strict=True))


def brute(streams, spans) -> Counter:
    return Counter(
        tuple(t[2] for t in members)
        for members in itertools.product(*streams)
        if len({t[0] for t in members}) == 1
        and max(t[1] for t in members) <= min(t[1] + s for t, s in zip(members, spans, strict=True))
    )


def streams_of(rng: random.Random, inputs: int, tuples: int, keys: int, spread: int):
    return [
        [(rng.randrange(keys), rng.randrange(-spread, spread), i) for i in range(tuples)]
        for _ in range(inputs)
    ]


def drive(join: NWayJoin, streams, rng: random.Random) -> Counter:
    found: Counter = Counter()
    left = [list(s) for s in streams]
    while any(left):
        batch = []
        for i, rows in enumerate(left):
            n = rng.choice([0, 1, 5, 30])
            batch.append(delta(*zip(*rows[:n], strict=True)) if rows[:n] else None)
            left[i] = rows[n:]
        for results in join.push(batch):
            found.update(ids(join, results))
    return found


@given(st.integers(2, 4), st.integers(0, 10**6), st.sampled_from([1, 4, 20]), st.sampled_from([5, 100]))
@settings(max_examples=60, deadline=None)
def test_any_arrival_order_gives_each_result_once(inputs: int, seed: int, keys: int, spread: int) -> None:
    rng = random.Random(seed)
    streams = streams_of(rng, inputs, 12, keys, spread)
    spans = [rng.choice([0, 3, 50, NEVER]) for _ in range(inputs)]
    join = NWayJoin([InputSpec(str(i), (("id", pa.int64()),), s) for i, s in enumerate(spans)])
    assert drive(join, streams, rng) == brute(streams, spans)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_results_do_not_depend_on_the_size_of_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CHUNK", chunk)
    monkeypatch.setattr(nway, "RESULTS", chunk)
    monkeypatch.setattr(nway, "_SLICE_TUPLES", 3)
    rng = random.Random(7)
    streams = streams_of(rng, 3, 25, 3, 40)
    join = NWayJoin([InputSpec(str(i), (("id", pa.int64()),), 10) for i in range(3)])
    assert drive(join, streams, rng) == brute(streams, [10] * 3)


def test_equality_decides_where_words_collide() -> None:
    spec = InputSpec("s", (("id", pa.int64()), ("key", pa.string())), 10, key_columns=(1,))
    join = NWayJoin([spec, spec])
    same_word = [0, 0, 0]
    a = Delta(
        np.array(same_word), np.array([1, 2, 3]), None, (pa.array([0, 1, 2]), pa.array(["x", "y", "x"]))
    )
    b = Delta(
        np.array(same_word), np.array([1, 2, 3]), None, (pa.array([0, 1, 2]), pa.array(["y", "x", "xx"]))
    )
    found = [pair for results in join.push([a, b]) for pair in ids(join, results)]
    assert sorted(found) == [(0, 1), (1, 0), (2, 1)]


def test_expiry_frees_memory_and_keeps_what_can_still_meet() -> None:
    join = NWayJoin([InputSpec(str(i), (("id", pa.int64()),), 10) for i in range(2)])
    for step in range(200):
        rows = ([0] * 1000, list(range(step * 1000, step * 1000 + 1000)), list(range(1000)))
        list(join.push([delta(*rows), None]))
        join.expire([step * 1000 + 1000, step * 1000 + 985])
    window = join.windows[0]
    assert len(window) == 25  # those that end at 985 or later
    assert len(window.node) < 5000
    found = [p for r in join.push([None, delta([0], [199_990], [7])]) for p in ids(join, r)]
    assert len(found) == 11 + 9  # alive at 199,990, or beginning within its own ten


def test_numbers_of_tuples_may_wrap() -> None:
    join = NWayJoin([InputSpec(str(i), (("id", pa.int64()),), 10) for i in range(2)])
    for window in join.windows:
        high = (1 << 32) - 20
        window.base = window.first = window.linked = window.next = window.rehashed = high
    for step in range(10):
        rows = ([1, 2, 3, 4, 5], [step * 100] * 5, [step] * 5)
        found = [p for r in join.push([delta(*rows), delta(*rows)]) for p in ids(join, r)]
        assert found == [(step, step)] * 5
        join.expire([step * 100 + 50] * 2)


def test_the_most_selective_window_is_probed_first() -> None:
    join = NWayJoin([InputSpec(c, (("id", pa.int64()),), NEVER) for c in "abc"])
    n = 4000
    rng = np.random.default_rng(1)
    few, many = rng.integers(0, 100_000, n), rng.integers(0, 50, n)
    moments = list(range(n))
    list(join.push([None, delta(many, moments, moments), delta(few, moments, moments)]))
    list(join.push([delta(many, moments, moments), None, None]))
    assert join.sequence(0) == [2, 1]


def test_the_probing_sequence_follows_what_the_streams_do() -> None:
    """First b is the one in which a's tuples meet few, then c is."""
    join = NWayJoin([InputSpec(c, (("id", pa.int64()),), 1000) for c in "abc"])
    rng = np.random.default_rng(1)
    chosen = []
    for step in range(40):
        n = 2000
        few, many = rng.integers(0, 100_000, n), rng.integers(0, 50, n)
        b, c = (few, many) if step < 20 else (many, few)
        moments = list(range(step * n, (step + 1) * n))
        rows = [delta(k, moments, moments) for k in (many, b, c)]
        list(join.push(rows))
        join.expire([(step + 1) * n] * 3)
        chosen.append(join.sequence(0))
    assert chosen[19] == [1, 2]
    assert chosen[39] == [2, 1]


def test_a_slow_input_follows_changes_that_fast_ones_bring() -> None:
    join = NWayJoin([InputSpec(c, (("id", pa.int64()),), 20_000) for c in "abc"])
    rng = np.random.default_rng(2)
    chosen = []
    for step in range(60):
        n = 5000
        few, many = rng.integers(0, 100_000, n), rng.integers(0, 50, n)
        b, c = (few, many) if step < 35 else (many, few)
        moments = np.arange(step * n, (step + 1) * n)
        slow = delta(many[:10], moments[:10], moments[:10])
        list(join.push([slow, delta(b, moments, moments), delta(c, moments, moments)]))
        join.expire([(step + 1) * n] * 3)
        chosen.append(join.sequence(0))
    assert chosen[34] == [1, 2]
    assert chosen[-1] == [2, 1]


def test_counts_do_not_depend_on_how_much_fits_into_buffers(monkeypatch) -> None:
    counted = []
    for room in (4, probe.CHUNK):
        monkeypatch.setattr(probe, "CHUNK", room)
        join = NWayJoin(
            [InputSpec(c, (("id", pa.int64()),), NEVER) for c in "abc"], probing=[[1, 2], [2, 0], [0, 1]]
        )
        keys = np.random.default_rng(1).integers(0, 5, 60)
        list(join.push([delta(keys, range(60), range(60))] * 3))
        counted.append(join.counters)
    assert counted[0] == counted[1]


def test_combinations_of_keys_that_only_share_a_word_are_no_results() -> None:
    specs = [InputSpec(c, (("id", pa.int64()), ("key", pa.string())), 10, key_columns=(1,)) for c in "ab"]
    join = NWayJoin(specs)
    one, other = (Delta(np.zeros(1, np.int64), np.zeros(1, np.int64), None, c) for c in map(_named, "xy"))
    assert list(join.push([one, other])) == []
    assert (join.counters.results, join.counters.comparisons) == (0, 1)


def _named(key: str) -> tuple[pa.Array, ...]:
    return pa.array([0]), pa.array([key])


def test_work_is_counted_and_a_wrong_sequence_costs_more() -> None:
    """Section 3.3: a tuple is hashed and moved once; comparisons depend on the sequence, results do not."""
    rng = np.random.default_rng(1)
    sizes = (100, 1000, 100)  # a step, of each input
    counts = {}
    steps = [[rng.integers(0, 1000, n) for n in sizes] for _ in range(20)]
    for probing in ("measured", "worst", [[2, 1], [0, 2], [0, 1]], [[1, 2], [2, 0], [1, 0]]):
        join = NWayJoin([InputSpec(c, (("id", pa.int64()),), NEVER) for c in "abc"], probing=probing)
        for at, keys in enumerate(steps):
            list(join.push([delta(k, [at] * len(k), [at] * len(k)) for k in keys]))
        counts[str(probing)] = join.counters
    assert len({(c.hashes, c.moves, c.results) for c in counts.values()}) == 1
    right, wrong, given, other = counts.values()
    assert right.hashes == right.moves == 20 * sum(sizes)
    assert wrong.comparisons > 1.2 * right.comparisons
    assert given.comparisons == pytest.approx(right.comparisons, rel=0.05)
    assert other.comparisons == pytest.approx(wrong.comparisons, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, 2, 1]),
        (pa.float64(), [0.0, -1.5, -0.0]),
        (pa.float64(), [float("nan"), 1.0, float("nan")]),
        (pa.string(), ["a", "", "a"]),
        (pa.binary(), [b"\0", b"", b"\0"]),
        (pa.decimal128(38, 5), [1, 2, 1]),
        (pa.date32(), [5, 6, 5]),
        (pa.bool_(), [True, False, True]),
        (pa.list_(pa.float64()), [[0.0, None], [0.0], [-0.0, None]]),
        (
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            [{"a": 1, "b": None}, None, {"a": 1, "b": None}],
        ),
    ],
)
def test_equal_values_have_equal_words(kind: pa.DataType, values: list) -> None:
    array = comparable(pa.array(values, kind))
    word = words(array)
    assert word[0] == word[2] and word[0] != word[1]
    assert combine([word, word])[0] == combine([word, word])[2]
    if not is_exact(kind):
        assert array[0] == array[2]


def test_buckets_are_even() -> None:
    count = np.bincount(buckets(np.arange(100_000), 7))
    assert count.min() > 13_500 and count.max() < 15_000


@pytest.mark.parametrize("seed", range(6))
def test_a_window_that_forgets_some_tuples_finds_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = (("id", pa.int64()), ("name", pa.string()))
    whole, part = (NWayJoin([InputSpec(c, columns, 40) for c in "ab"]) for _ in range(2))
    kept_keys = rng.integers(0, 2, 20).astype(bool)
    found: tuple[list, list] = ([], [])
    for step in range(12):
        batches = []
        for _ in "ab":
            n = int(rng.integers(0, 40))
            key, start = rng.integers(0, 20, n), np.sort(rng.integers(step * 10, step * 10 + 15, n))
            names = pa.array([None if rng.random() < 0.2 else "x" * int(rng.integers(5)) for _ in range(n)])
            batches.append((key, start, pa.array(rng.integers(0, 1 << 40, n)), names.cast(pa.string())))
        for join, out in zip((whole, part), found, strict=True):
            for result in join.push([Delta(k, s, None, (i, m)) for k, s, i, m in batches]):
                out += [
                    (key, *values)
                    for key, *values in zip(
                        result.key.tolist(),
                        *(
                            column.take(rows).to_pylist()
                            for window, rows in zip(join.windows, result.rows, strict=True)
                            for column in window.columns
                        ),
                        strict=True,
                    )
                ]
            join.expire([step * 10 + 5] * 2)
        for window in part.windows:
            window.retain(window.rows[kept_keys[window.keys(window.rows)]])
        assert len(part.windows[0]) <= len(whole.windows[0])
    chosen = [r for r in found[0] if kept_keys[r[0]]]
    assert sorted(map(str, chosen)) == sorted(str(r) for r in found[1] if kept_keys[r[0]])
    assert chosen

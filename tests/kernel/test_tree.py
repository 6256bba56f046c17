"""Trees of joins against the rule: whatever the tree, the results are the same."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.test_nway import brute, delta, streams_of
from thalweg.kernel.nway import InputSpec, NWayJoin
from thalweg.kernel.tree import JoinTree, Shape, leaves
from thalweg.kernel.window import NEVER


def random_tree(rng: random.Random, parts: list[Shape]) -> Shape:
    """Parts are put together, some at a time, until there is one."""
    while len(parts) > 1:
        some = rng.sample(parts, rng.randint(2, len(parts)))
        parts = [p for p in parts if p not in some] + [tuple(some)]
    return parts[0]


def drive(tree: JoinTree, streams, rng: random.Random) -> Counter:
    """All tuples in batches of any size, in order of time up to a lateness of ten, expiring as they go."""
    found: Counter = Counter()
    left = [sorted(s, key=lambda t: t[1] + rng.randrange(10)) for s in streams]
    while any(left):
        batch = []
        for i, rows in enumerate(left):
            n = rng.choice([0, 1, 5, 30])
            batch.append(delta(*zip(*rows[:n], strict=True)) if rows[:n] else None)
            left[i] = rows[n:]
        for results in tree.push(batch):
            ids = [results.columns(i)[0].to_pylist() for i in range(len(streams))]
            found.update(zip(*ids, strict=True))
        tree.expire([min((t[1] for t in rows), default=NEVER) for rows in left])
    return found


@given(st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([2, 20]), st.sampled_from([5, 100]))
@settings(max_examples=60, deadline=None)
def test_any_tree_gives_each_result_once(inputs: int, seed: int, keys: int, spread: int) -> None:
    rng = random.Random(seed)
    streams = streams_of(rng, inputs, 12 if inputs < 5 else 6, keys, spread)
    spans = [rng.choice([0, 3, 50, NEVER]) for _ in range(inputs)]
    shape = random_tree(rng, list(range(inputs)))
    tree = JoinTree([InputSpec(str(i), (("id", pa.int64()),), s) for i, s in enumerate(spans)], shape)
    assert drive(tree, streams, rng) == brute(streams, spans)


def test_equality_decides_in_every_join_of_a_tree() -> None:
    spec = InputSpec("s", (("id", pa.int64()), ("key", pa.string())), 10, key_columns=(1,))
    tree = JoinTree([spec] * 3, (2, (0, 1)))
    same_word = [0, 0]
    one = delta(same_word, [1, 2], [0, 1])
    texts = (pa.array(["x", "y"]), pa.array(["y", "x"]), pa.array(["y", "z"]))
    deltas = [type(one)(one.key, one.start, None, (one.columns[0], t)) for t in texts]
    found = [
        members
        for r in tree.push(deltas)
        for members in zip(*(r.columns(i)[0].to_pylist() for i in range(3)), strict=True)
    ]
    assert found == [(1, 0, 0)]


def test_the_work_of_all_joins_is_counted() -> None:
    """Section 3.3: a tree hashes and moves its intermediate results too, one operator does not."""
    rng = np.random.default_rng(1)
    rows = [delta(rng.integers(0, 100, 500), [0] * 500, range(500)) for _ in range(3)]
    inputs = [InputSpec(c, (("id", pa.int64()),), NEVER) for c in "abc"]
    deep, one = JoinTree(inputs, ((0, 1), 2)), JoinTree(inputs, (0, 1, 2))
    pair = NWayJoin(inputs[:2])
    between = sum(len(r) for r in pair.push(rows[:2]))
    counts = [len(list(tree.push(rows))) and tree.counters for tree in (deep, one)]
    assert counts[0].hashes == counts[0].moves == 1500 + between
    assert counts[1].hashes == counts[1].moves == 1500
    assert counts[0].results == counts[1].results > 0


def test_intermediate_results_expire() -> None:
    tree = JoinTree([InputSpec(c, (("id", pa.int64()),), 10) for c in "abc"], ((0, 1), 2))
    for step in range(50):
        rows = delta([0] * 4, range(step * 100, step * 100 + 4), range(4))
        assert sum(len(found) for found in tree.push([rows] * 3)) == 64
        tree.expire([step * 100 + 50] * 3)
    assert sum(len(w) for join in tree.joins for w in join.windows) == 0


@pytest.mark.parametrize("shape", [0, (0, 1), ((0, 1), 1), (0, 1, 2, 3)])
def test_a_tree_must_have_each_input_once(shape: Shape) -> None:
    with pytest.raises(ValueError, match="each once"):
        JoinTree([InputSpec(c, (), 10) for c in "abc"], shape)


def test_leaves_are_told_from_left_to_right() -> None:
    assert leaves(((2, 0), (1, (3, 4)))) == (2, 0, 1, 3, 4)

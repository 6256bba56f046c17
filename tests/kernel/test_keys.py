"""Key words and slots: equal values are found, and whoever chooses the keys gains nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.kernel.keys import combine, words
from thalweg.kernel.nway import Delta, InputSpec, NWayJoin
from thalweg.kernel.window import GOLDEN

COUNT = 20_000
INVERSE = pow(int(GOLDEN), -1, 1 << 64)
CHOSEN = {
    "in a row": lambda n: n,
    "far apart": lambda n: n << 44,
    "one slot, were there no seed": lambda n: n * INVERSE,
    "one slot, were the seed all ones": lambda n: ~(n * INVERSE),
}


@pytest.mark.parametrize("choice", CHOSEN)
def test_chosen_keys_share_no_slots(choice):
    """Each tuple should meet its partner and hardly anything else on its way."""
    key = np.array([CHOSEN[choice](n) % (1 << 64) for n in range(COUNT)], np.uint64).view(np.int64)
    join = NWayJoin([InputSpec(name, (), span=COUNT) for name in "ab"])
    times = np.arange(COUNT, dtype=np.int64)
    found = sum(len(r) for r in join.push([Delta(key, times, None, []) for _ in "ab"]))
    assert found == COUNT
    assert join.counters.comparisons < 4 * COUNT


def test_keys_of_two_columns_can_not_be_chosen_to_have_one_word():
    """The second column makes up for the first in a sum of mixed words."""
    first = np.arange(COUNT, dtype=np.int64)
    word = np.uint64(12345)
    second = ((word - first.view(np.uint64)) * np.uint64(INVERSE)).view(np.int64)
    assert len(np.unique(combine([first, second]))) == COUNT


def test_text_of_other_lengths_has_other_words():
    texts = [b"\0" * n for n in range(40)] + [b"x" * n for n in range(1, 40)]
    assert len(np.unique(words(pa.array(texts)))) == len(texts)


def test_the_word_of_a_text_does_not_depend_on_where_it_lies():
    texts = pa.array(["ab", "", "a longer text, of several words", "ab", "z"])
    assert words(texts).tolist()[2:] == words(texts.slice(2)).tolist()
    assert words(texts)[0] == words(texts)[3]

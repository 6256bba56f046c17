"""Counting key words: the same numbers as counting them one by one."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.kernel.tally import SPACE, count_of, marks, tally


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-2_000, 2_000), max_size=2_000), st.sampled_from([1, 8, 64, 4096]))
def test_the_least_marks_with_their_counts(values, k):
    word = np.array(values, np.int64)
    mark = marks(word)
    held, counts, rows, limit = tally(mark, k)
    known = Counter(mark.tolist())
    least = sorted(known)[:k]
    assert held.tolist() == least
    assert counts.tolist() == [known[m] for m in least]
    assert mark[rows].tolist() == least
    assert limit == (sorted(known)[k] if len(known) > k else SPACE)
    wanted = np.array([*least[:50], 1], np.uint64)
    assert count_of(mark, wanted).tolist() == [known[m] for m in wanted.tolist()]


def test_marks_do_not_change():
    """Sketches of earlier versions and of other sites must stay comparable."""
    assert marks(np.array([0, 1, -1])).tolist() == [248629889170205, 159472906176770, 251622562667365]

"""Selectivities of joins, from the sketches of streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from thalweg.catalog.model import JoinSelectivity
from thalweg.kernel.tally import SPACE
from thalweg.observe.column import Column
from thalweg.observe.sketch import Sketch, rounded
from thalweg.query.classes import classes
from thalweg.query.implied import accepted
from thalweg.query.model import Query


def selectivity(left: Sketch, left_column: str, right: Sketch, right_column: str) -> float | None:
    """The share of all pairs of tuples that agree in two columns; None where no pair was seen to.

    Values that are heavy on either side are counted one by one. The others that both samples have stand for
    all others, in proportion to the part of the hashes that both samples cover.
    """
    if left_column not in left.keys or right_column not in right.keys:
        return None
    a, b = left.keys[left_column], right.keys[right_column]
    if a.kind != b.kind:  # compared by a cast, which the hashes don't know
        return None
    limit = np.uint64(min(a.limit, b.limit))
    heavy = a.heavy.keys() | b.heavy.keys()
    light = np.array(sorted(heavy), np.uint64)
    of_a, of_b = (~np.isin(c.marks, light) & (c.marks < limit) for c in (a, b))
    _, in_a, in_b = np.intersect1d(a.marks[of_a], b.marks[of_b], assume_unique=True, return_indices=True)
    counts_a, counts_b = a.counts[of_a][in_a], b.counts[of_b][in_b]
    pairs = float((counts_a * counts_b).sum()) * SPACE / int(limit)
    a_usual = _usual(a, b.heavy, float(counts_a.sum()) / max(1, int(of_b.sum())))
    b_usual = _usual(b, a.heavy, float(counts_b.sum()) / max(1, int(of_a.sum())))
    for mark in heavy:
        n, m = a.count(mark), b.count(mark)
        pairs += (a_usual if n is None else n) * (b_usual if m is None else m)
    return min(1.0, pairs / (left.count * right.count)) if pairs > 0 else None


def _usual(column: Column, heavy: Iterable[int], light: float) -> float:
    """How frequent a value is here that is heavy elsewhere and unknown here: as others of its kind are.

    `light` is how frequent the values are that are heavy nowhere; it counts as one more of them.
    """
    known = [column.count(mark) or 0.0 for mark in heavy if mark < column.limit]
    return (sum(known) + light) / (len(known) + 1)


def joins(queries: Iterable[Query], sketches: Mapping[str, Sketch]) -> tuple[JoinSelectivity, ...]:
    """The selectivities of all pairs of plain columns that the queries make equal, directly or not."""
    found: dict[frozenset[tuple[str, str]], JoinSelectivity] = {}
    for left, right in _pairs(queries):
        if frozenset((left, right)) in found or not {left[0], right[0]} <= sketches.keys():
            continue
        share = selectivity(sketches[left[0]], left[1], sketches[right[0]], right[1])
        if share is not None:
            found[frozenset((left, right))] = JoinSelectivity(
                left=left, right=right, selectivity=rounded(share)
            )
    return tuple(found.values())


def keys(queries: Iterable[Query]) -> dict[str, tuple[str, ...]]:
    """The columns of each stream that the queries equate with others, or with constants."""
    found: dict[str, dict[str, None]] = {}
    for query in queries:
        for one in query.inputs:
            own = found.setdefault(one.stream, {})
            for side in (s for e in query.equalities for s in (e.left, e.right)):
                if one.alias in side.aliases and (column := side.plain_column):
                    own[column] = None
            own.update(dict.fromkeys(named[0] for f in one.filters if (named := accepted(f.sql))))
    return {stream: tuple(columns) for stream, columns in found.items()}


def _pairs(queries: Iterable[Query]) -> Iterable[tuple[tuple[str, str], tuple[str, str]]]:
    for query in queries:
        for members in classes(query.equalities):
            for (a, of_a), (b, of_b) in combinations(members.items(), 2):
                for x in filter(None, (e.plain_column for e in of_a)):
                    for y in filter(None, (e.plain_column for e in of_b)):
                        yield (query.input(a).stream, x), (query.input(b).stream, y)

"""How a key space is cut into parts (pmjoin 3.3): by hash, by range, or by the streams' rates.

The values that the statistics name are the paper's FStreams, one substream each, to be put together into
the parts asked for. Values that are not named spread evenly: over all parts where these are buckets or
ranges; where parts are sets of values, they are the last part or belong to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thalweg.cost.keys import KeyClass, Selection
from thalweg.cost.rates import Rates
from thalweg.plan.selectors import Selector, bucket

PARTITIONERS = ("hash", "range", "rate")
_SEED = 7


@dataclass(frozen=True)
class Piece:
    """A part of the key space: which values for the estimates, and how to tell its tuples."""

    selection: Selection
    selector: Selector


def together(pieces: Sequence[Piece]) -> Piece:
    """Several parts as one."""
    selectors = [p.selector for p in pieces]
    return Piece(
        Selection(
            tuple(v for p in pieces for v in p.selection.values), sum(p.selection.unnamed for p in pieces)
        ),
        replace(
            selectors[0],
            buckets=tuple(b for s in selectors for b in s.buckets),
            ranges=tuple(r for s in selectors for r in s.ranges),
            values=tuple(v for s in selectors for v in s.values),
            others=any(s.others for s in selectors),
        ),
    )


def partition(rates: Rates, class_: int, parts: int, partitioner: str) -> list[Piece]:
    """Cuts the key space of one attribute into so many parts; fewer where there are not so many values."""
    one = rates.classes[class_]
    if not one.values:
        rates.statistics.note(
            "the rates of single values are not known: all parts are alike, and nothing can be gained by them"
        )
        return _by_hash(one, 1)
    if partitioner == "hash":
        return _by_hash(one, parts)
    if partitioner == "range":
        return _by_range(one, parts)
    return _by_rate(rates, one, parts)


def _by_hash(one: KeyClass, parts: int) -> list[Piece]:
    inside: dict[int, list[Hashable]] = {k: [] for k in range(parts)}
    for value in one.values:
        inside[bucket(value, parts)].append(value)
    return [
        Piece(Selection(tuple(values), 1 / parts), Selector(part=k, of=parts, buckets=(k,)))
        for k, values in inside.items()
    ]


def _by_range(one: KeyClass, parts: int) -> list[Piece]:
    groups = [g for g in np.array_split(np.arange(len(one.values)), min(parts, len(one.values))) if len(g)]
    firsts = [_shown(one.values[g[0]]) for g in groups]
    ends = zip([None, *firsts[1:]], [*firsts[1:], None], strict=True)
    return [
        Piece(
            Selection(tuple(one.values[i] for i in group), 1 / len(groups)),
            Selector(part=k, ranges=((low, high),)),
        )
        for k, (group, (low, high)) in enumerate(zip(groups, ends, strict=True))
    ]


def _by_rate(rates: Rates, one: KeyClass, parts: int) -> list[Piece]:
    """k-means on rank vectors: values in which the streams have the same order of rates are alike."""
    speed = one.shares * rates.rate[list(one.members)][:, None]
    ranks = speed.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").T.astype(float)
    labels = _clusters(ranks, min(parts, len(one.values)))
    groups: dict[int, list[Hashable]] = {}
    for label, value in zip(labels, one.values, strict=True):
        groups.setdefault(int(label), []).append(value)
    parted = [tuple(values) for _, values in sorted(groups.items())]
    if one.rest.any() and len(parted) < parts:
        parted.append(())  # a separate part for unnamed values
    return [
        Piece(
            Selection(values, float(k == len(parted) - 1)),
            Selector(part=k, values=tuple(map(_shown, values)), others=k == len(parted) - 1),
        )
        for k, values in enumerate(parted)
    ]


def _clusters(ranks: np.ndarray, parts: int) -> Sequence[int]:
    """Cluster numbers. Where more parts are asked for than there are different vectors, equal ones are
    dealt out in turn, as the paper's k-means places them at random."""
    different, which = np.unique(ranks, axis=0, return_inverse=True)
    which = which.ravel()
    if parts < len(different):
        from scipy.cluster.vq import kmeans2

        return list(kmeans2(ranks, parts, minit="++", rng=np.random.default_rng(_SEED), missing="warn")[1])
    each = np.ones(len(different), dtype=int)
    sizes = np.bincount(which)
    for _ in range(parts - len(different)):
        each[np.argmax(sizes / each)] += 1
    first = np.concatenate(([0], np.cumsum(each)[:-1]))
    dealt: dict[int, int] = {}
    labels = []
    for kind in which:
        turn = dealt.get(int(kind), 0)
        labels.append(int(first[kind] + turn % each[kind]))
        dealt[int(kind)] = turn + 1
    return labels


def _shown(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value

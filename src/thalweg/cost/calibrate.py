"""The time of each join operation on this machine, measured with the kernel itself.

It runs joins that do different amounts of each operation, counts these as `cost/splitting.py` does, and fits
the prices to the times. A single operation can't be timed alone: there is no probe without a comparison.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from thalweg.cost.operations import USUAL
from thalweg.cost.splitting import Inputs, Moment, Operations, Shape, Work
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.tree import JoinTree
from thalweg.kernel.window import NEVER

_BELIEF = 0.5
"""How much less a price that is twice the usual one counts than a trial that takes twice what it should."""

_TRIALS = 60
_SECONDS = (0.002, 0.04)  # the least and the most time of a trial, at the usual prices
_ROUNDS = 3  # each trial is run so often; the fastest counts, for others may use the machine as well
_BATCHES = 8  # in each, after the windows are full


@dataclass(frozen=True)
class Trial:
    """A join of some streams of equal windows: tuples of each in a window, values of its key, columns."""

    tuples: tuple[int, ...]
    keys: tuple[int, ...]
    shape: Shape
    columns: int = 1
    grows: bool = False  # the windows have no end


def trials() -> list[Trial]:
    """Joins of common sizes and selectivities, each as one operator and as two trees; always the same."""
    rng = random.Random(1)
    found: list[Trial] = []
    while len(found) < _TRIALS:
        n = rng.randint(2, 5)
        values = 10 ** rng.uniform(2.5, 5)
        tuples = tuple(int(10 ** rng.uniform(3, 5)) for _ in range(n))
        keys = tuple(int(values * rng.choice([1, 1, 0.6])) for _ in range(n))
        columns, grows = rng.choice([1, 1, 4]), rng.random() < 0.4
        for shape in dict.fromkeys((tuple(range(n)), _nested(rng, n, 2), _nested(rng, n, n))):
            trial = Trial(tuples, keys, shape, columns, grows)
            if _SECONDS[0] < Work(_inputs(trial)).tree(shape).seconds(USUAL) < _SECONDS[1]:
                found.append(trial)
    return found[:_TRIALS]


def _nested(rng: random.Random, inputs: int, most: int) -> Shape:
    """A tree at random, whose joins have so many inputs at most."""
    parts: list[Shape] = list(range(inputs))
    while len(parts) > 1:
        rng.shuffle(parts)
        size = rng.randint(2, min(most, len(parts)))
        parts = [*parts[size:], tuple(parts[:size])]
    return parts[0]


def measure() -> Operations:
    """The seconds that one of each operation takes; found in some five seconds."""
    chosen = trials()
    counts = [Work(_inputs(trial)).tree(trial.shape).values for trial in chosen]
    _run(next(t for t in chosen if len(t.tuples) == 3))  # so that all is compiled before anything is timed
    # In rounds: a disturbance lasts longer than one trial.
    seconds = [[_run(trial) for trial in chosen] for _ in range(_ROUNDS)]
    return _explained(np.array(counts), np.min(seconds, axis=0))


def _explained(counts: np.ndarray, seconds: np.ndarray) -> Operations:
    """The prices that explain the times best; operations that trials can't separate keep the usual price.

    Of all trials the same part may be left unexplained.
    """
    usual = np.array(USUAL.values)
    usual = usual * np.median(seconds / (counts @ usual))  # on a machine as fast as this one
    trials = np.vstack([counts / seconds[:, None], np.diag(_BELIEF / usual)])
    wanted = np.concatenate([np.ones(len(seconds)), np.full(len(usual), _BELIEF)])
    prices, _ = nnls(trials, wanted)
    return Operations(*(float(p) for p in prices))


def _inputs(trial: Trial) -> Inputs:
    """A trial as the model sees it: a window takes a second, and is filled in some batches."""

    def agree(mask: int) -> float:
        keys = [k for i, k in enumerate(trial.keys) if mask >> i & 1]
        return min(keys) / math.prod(keys)

    n = len(trial.tuples)
    rate = tuple(map(float, trial.tuples))
    columns = (float(trial.columns),) * n
    if not trial.grows:
        return Inputs((Moment(rate, rate),), agree, (1.0,) * n, columns, 1 / _BATCHES)
    moments = tuple(
        Moment(rate, tuple(r * (k + 0.5) / _BATCHES for r in rate), 1 / _BATCHES) for k in range(_BATCHES)
    )
    return Inputs(moments, agree, (math.inf,) * n, columns, 1 / _BATCHES)


def _run(trial: Trial) -> float:
    """The seconds that a trial takes once its windows are full, or, if they grow, from the start."""
    rng = np.random.default_rng(1)
    windows = 1 if trial.grows else 2
    deltas = []
    for tuples, keys in zip(trial.tuples, trial.keys, strict=True):
        start = np.sort(rng.integers(0, windows * 1_000_000, windows * tuples))
        values = (pa.array(start),) * trial.columns
        deltas.append(Delta(rng.integers(0, keys, len(start)), start, None, values))
    names = tuple((f"v{c}", pa.int64()) for c in range(trial.columns))
    span = NEVER if trial.grows else 1_000_000
    tree = JoinTree([InputSpec(str(i), names, span) for i in range(len(deltas))], trial.shape)
    spent = 0.0
    for n in range(windows * _BATCHES):
        lo, hi = n * 1_000_000 // _BATCHES, (n + 1) * 1_000_000 // _BATCHES
        cuts = [np.searchsorted(d.start, [lo, hi]) for d in deltas]
        batch = [d.slice(int(a), int(b)) for d, (a, b) in zip(deltas, cuts, strict=True)]
        begun = time.process_time()
        for found in tree.push(batch):
            for i in range(len(deltas)):
                found.columns(i)
        tree.expire([hi] * len(deltas))
        if trial.grows or n >= _BATCHES:
            spent += time.process_time() - begun
    return spent

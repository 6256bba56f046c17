"""What each operation of the join takes on this machine, measured with the kernel itself.

Some joins run that do different amounts of each operation. How much of what is told by the same counting by
which trees are compared later (`cost/splitting.py`); the prices are those that explain the times best. One
operation alone can't be timed: a probe without a comparison, a found combination that nobody takes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from thalweg.cost.splitting import Inputs, Moment, Operations, Shape, Work
from thalweg.kernel.nway import Delta, InputSpec
from thalweg.kernel.tree import JoinTree
from thalweg.kernel.window import NEVER

_BELIEF = 0.2
"""How much less a price that is twice the usual one counts than a trial that takes twice what it should."""

USUAL = Operations(
    hash=25e-9,
    move=6e-9,
    compare=3e-9,
    probe=20e-9,
    found=1e-9,
    copy=1.5e-9,
    take=1e-9,
    far=7e-9,
    grow=1e-9,
    call=12e-6,
    between=20e-9,
)
"""What the operations took on a machine of 2026."""

_TIMES = 3  # each join is run so often; the fastest counts, for others may use the machine as well
_BATCHES = 4  # in each, after the windows are full


@dataclass(frozen=True)
class Trial:
    """A join of some streams of equal windows: tuples of each in a window, values of its key, columns."""

    tuples: tuple[int, ...]
    keys: tuple[int, ...]
    shape: Shape
    columns: int = 1
    grows: bool = False  # the windows have no end


TRIALS = (
    Trial((20_000,) * 2, (1_000_000,) * 2, (0, 1)),
    Trial((20_000,) * 2, (1_000_000,) * 2, (0, 1), columns=6),
    Trial((100_000, 1000), (1_000_000,) * 2, (0, 1)),
    Trial((2000,) * 2, (20,) * 2, (0, 1)),
    Trial((2000,) * 2, (20,) * 2, (0, 1), columns=6),
    Trial((4000,) * 3, (1500,) * 3, (0, 1, 2)),
    Trial((4000,) * 3, (1500,) * 3, ((0, 1), 2)),
    Trial((4000,) * 3, (1500,) * 3, ((0, 1), 2), columns=4),
    Trial((4000, 4000, 40), (200, 200, 20_000), (2, 0, 1)),
    Trial((3000,) * 5, (3000,) * 5, (0, 1, 2, 3, 4)),
    Trial((3000,) * 5, (60_000,) * 5, (0, 1, 2, 3, 4)),
    Trial((200,) * 4, (200,) * 4, (((0, 1), 2), 3)),
    Trial((20_000, *(500,) * 5), (500,) * 6, (0, 1, 2, 3, 4, 5)),
    Trial((2000, 2000, 2000, 200), (400,) * 4, ((0, 1, 2), 3)),
    Trial((3000,) * 5, (1000,) * 5, (0, 1, 2, 3, 4)),
    Trial((40_000, *(800,) * 4), (400,) * 5, (0, 1, 2, 3, 4)),
    Trial((40_000, *(800,) * 4), (400,) * 5, (0, (1, (2, (3, 4))))),
    Trial((3000,) * 3, (300,) * 3, (0, 1, 2)),
    Trial((100_000,) * 2, (100_000,) * 2, (0, 1)),
    Trial((100_000,) * 3, (100_000,) * 3, (0, 1, 2)),
    Trial((100_000, 20_000), (20_000,) * 2, (0, 1), columns=4),
    Trial((60_000,) * 2, (60_000,) * 2, (0, 1), grows=True),
    Trial((60_000,) * 2, (60_000,) * 2, (0, 1), columns=6, grows=True),
)


def measure() -> Operations:
    """The seconds that one of each operation takes; found in about a second."""
    for trial in TRIALS:
        if len(trial.tuples) == 3:
            _run(trial)  # what is compiled and what is cached is so before anything is timed
            break
    counts, seconds = [], []
    for trial in TRIALS:
        counts.append(Work(_inputs(trial)).tree(trial.shape).values)
        seconds.append(min(_run(trial) for _ in range(_TIMES)))
    return _explained(np.array(counts), np.array(seconds))


def _explained(counts: np.ndarray, seconds: np.ndarray) -> Operations:
    """The prices that explain the times best; what trials do not tell apart costs what it usually does.

    Of all trials the same part may be left unexplained.
    """
    usual = np.array(USUAL.values)
    usual = usual * np.median(seconds / (counts @ usual))  # on a machine as fast as this one
    trials = np.vstack([counts / seconds[:, None], np.diag(_BELIEF / usual)])
    wanted = np.concatenate([np.ones(len(seconds)), np.full(len(usual), _BELIEF)])
    prices, _ = nnls(trials, wanted)
    return Operations(*(float(p) for p in prices))


def _inputs(trial: Trial) -> Inputs:
    """A trial as the model sees it: a window takes a second, and is filled in four batches."""

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

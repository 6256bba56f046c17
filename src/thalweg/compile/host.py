"""What a host of sites can do, whatever it runs on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from thalweg.compile.compiler import Compiled


class Host(Protocol):
    """Runs what was compiled, one micro-batch after another.

    Each batch brings new rows of the streams and parcels that were sent in earlier ones. The host gives them
    to the key groups of the program, stage by stage (`operators/chain.py`), keeps their state, sends their
    parcels and hands out their results. After a crash it repeats the batch on the state before it.
    """

    compiled: Compiled

    def switch(self, batch: int, compiled: Compiled, ended: Collection[str] = ()) -> None:
        """Let another program take over after a batch.

        The operators of earlier ones are told to end, and finish what is on its way to them. `ended` are the
        ones that have: `Report.ended` of all batches.
        """
        ...

    def end(self) -> None:
        """Tell all streams that they have ended."""
        ...

    def hurry(self) -> None:
        """Tell all operators that tuples on disk have waited long enough."""
        ...

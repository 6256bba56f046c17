"""State in memory between the calls of an operator: of this process, or shared by all of a machine."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.kernel.columns import Allocator
from thalweg.kernel.shared import SharedArrays, SharedWindows
from thalweg.operators.spec import JoinSpec
from thalweg.operators.state import Runtime, make_join


class OwnCache:
    """The state of one bucket, as this process left it; `unshared` where others should have it, but can't."""

    def __init__(self, *, unshared: bool = False) -> None:
        self._held: Runtime | None = None
        self.unshared = unshared

    def take(self, spec: JoinSpec, nonce: str) -> Runtime | None:
        held, self._held = self._held, None
        return held if held is not None and held.nonce == nonce else None

    def allocators(self, windows: int) -> Sequence[Allocator] | None:
        return None

    def give(self, runtime: Runtime) -> None:
        self._held = runtime


class SharedCache:
    """The windows of one bucket, for any process of this machine.

    What a process has mapped it keeps, so that a bucket that comes back to it need not be mapped again.
    """

    def __init__(self, windows: SharedWindows, bucket: str) -> None:
        self._windows, self._bucket = windows, bucket
        self._held: Runtime | None = None
        self._arrays: SharedArrays | None = None

    def take(self, spec: JoinSpec, nonce: str) -> Runtime | None:
        held, mine = self._held, self._arrays
        self._held = self._arrays = None
        same = held is not None and held.nonce == nonce
        if same and mine is not None and not mine.shareable:  # it could not be shared, so nobody else has it
            self._arrays = mine
            return held
        taken = self._windows.take(self._bucket, nonce) if nonce else None
        if mine is not None and not (same and taken is not None):
            self._windows.drop(mine)
        if taken is None:
            return None
        if same and mine is not None:
            mine.folder = taken.folder
            self._arrays = mine
            return held
        self._arrays = taken
        join = make_join(spec, [taken.of(i) for i in range(len(spec.ports))])
        try:
            self._windows.attach(taken, join.windows)
        except (OSError, ValueError):  # removed, or cut short
            self._windows.drop(taken)
            self._arrays = None
            return None
        return Runtime(nonce, join, [[] for _ in spec.ports])

    @property
    def unshared(self) -> bool:
        return self._arrays is not None and not self._arrays.shareable

    def allocators(self, windows: int) -> Sequence[Allocator] | None:
        self._arrays = self._windows.new()
        return [self._arrays.of(i) for i in range(windows)]

    def give(self, runtime: Runtime) -> None:
        self._held = runtime
        if self._arrays is not None and self._arrays.shareable:
            self._windows.give(self._arrays, runtime.join.windows, self._bucket, runtime.nonce)

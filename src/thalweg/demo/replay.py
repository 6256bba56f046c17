"""Replays packets as live streams: at each interval every router drops a file into its folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import ROUTERS, Traffic


class Replay:
    """Hands on the routers' packets, in a thread of its own once `start` is called.

    `sleep` waits for so many seconds, and says whether to go on.
    """

    def __init__(
        self,
        traffic: Traffic,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], bool] | None = None,
    ) -> None:
        self.sent = dict.fromkeys(ROUTERS, 0)
        self.done = threading.Event()
        self.error: Exception | None = None
        self.begun: float | None = None
        self._traffic, self._folder, self._clock = traffic, folder, clock
        self._halt = threading.Event()
        self._sleep = sleep or (lambda seconds: not self._halt.wait(seconds))
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        for router in ROUTERS:
            (folder / router).mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Begin with the second portion: the first is for `warm_up`."""
        self.begun = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End early; what has been handed on stays."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()

    def warm_up(self) -> None:
        """Hand on a first portion, on which the engine can get up to speed."""
        for router in ROUTERS:
            self._write(router, 0, self._traffic.portion(router, 0, self._now_us()))

    def run(self) -> None:
        """All portions after the first, each at its time, and after a silence one last packet at each router.

        A packet that is still alive, or that others may still come before, could get further results. The
        last ones let the sites know that this is over.
        """
        begun, files = self._clock(), self._traffic.files
        for number in range(1, files + 1):
            if not self._until(begun + number * self._traffic.interval_s):
                return
            for router in ROUTERS:
                self._write(router, number, self._traffic.portion(router, number, self._now_us()))
        if self._until(self._clock() + self._traffic.silence_s):
            for router in ROUTERS:
                self._write(router, files + 1, self._traffic.last(router, self._now_us()))

    def _until(self, moment: float) -> bool:
        """Wait for a moment; whether to go on then."""
        return self._sleep(max(0.0, moment - self._clock()))

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:  # whoever waits for the replay raises it again
            self.error = error
        finally:
            self.done.set()

    def _now_us(self) -> int:
        return round(self._clock() * 1e6)

    def _write(self, router: str, number: int, table: pa.Table) -> None:
        target = self._folder / router / f"{number:05d}.parquet"
        draft = target.with_name(f".{target.name}")  # Spark does not see names that begin with a dot
        pq.write_table(table, draft)
        draft.replace(target)
        self.sent[router] += table.num_rows

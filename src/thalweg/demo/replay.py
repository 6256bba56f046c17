"""Replays packets as live streams: every router writes a file to its folder at each interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import ROUTERS, Traffic


class Replay:
    """Writes the routers' packets, in its own thread once `start` is called.

    `sleep` waits for the given seconds and returns whether to continue.
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
        """Starts with the second file of each router; `warm_up` writes the first.

        `begun` is then the moment from which on results are timed.
        """
        self.begun = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """Stops early. Files already written stay."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()

    def warm_up(self) -> None:
        """Writes the first file of each router, to warm up the engine."""
        for router in ROUTERS:
            self._write(router, 0, self._traffic.portion(router, 0, self._now_us()))

    def run(self) -> None:
        """Writes the other files, each at its time, and after a pause one last packet for each router.

        The last packets move event time past the windows of all others, so that no result is pending.
        """
        begun, untimed = self._clock(), self._traffic.warm_up_files
        files = untimed + self._traffic.files
        for number in range(1, files + 1):
            if not self._until(begun + number * self._traffic.interval_s):
                return
            if number == untimed + 1:
                self.begun = self._clock()
            for router in ROUTERS:
                self._write(router, number, self._traffic.portion(router, number, self._now_us()))
        if self._until(self._clock() + self._traffic.silence_s):
            for router in ROUTERS:
                self._write(router, files + 1, self._traffic.last(router, self._now_us()))

    def _until(self, moment: float) -> bool:
        """Waits until a time; returns whether to continue."""
        return self._sleep(max(0.0, moment - self._clock()))

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:  # raised again by the thread that waits for the replay
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

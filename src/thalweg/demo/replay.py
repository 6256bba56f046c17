"""Replays packets as live streams: every router writes a file to its folder at each interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.demo.packets import EARLIER, ROUTERS, Traffic


class Replay:
    """Writes the routers' packets, in its own thread once `start` is called.

    `sleep` waits for the given seconds and returns whether to continue. `origin_us` is where the packets'
    times begin. It is so early that none of them is dated ahead of the clock.
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
        self.shifted = False
        self.traffic, self._folder, self._clock = traffic, folder, clock
        lasts_s = traffic.interval_s * (traffic.last_file + 1 - EARLIER) + traffic.silence_s
        self.origin_us = round((clock() - (traffic.speed - 1) * lasts_s) * 1e6)
        self._halt = threading.Event()
        self._sleep = sleep or (lambda seconds: not self._halt.wait(seconds))
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        for router in ROUTERS:
            (folder / router).mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Starts with the files after those of `earlier`.

        `begun` is then the moment from which on results are timed.
        """
        self.begun = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """Stops early. Files already written stay."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()

    def earlier(self) -> None:
        """Writes the files from before the run: their packets are measured, and warm up the engine."""
        for number in range(EARLIER):
            self._write(number)

    def run(self) -> None:
        """Writes the other files, each at its time, and after a pause one last packet for each router.

        The last packets move event time past the windows of all others, so that no result is pending.
        """
        traffic, begun = self.traffic, self._clock()
        timed = EARLIER + traffic.warm_up_files
        for number in range(EARLIER, traffic.last_file + 1):
            if not self._until(begun + (number + 1 - EARLIER) * traffic.interval_s):
                return
            if number == timed:
                self.begun = self._clock()
            self._write(number)
        if self._until(self._clock() + traffic.silence_s):
            over_us = traffic.time_us(traffic.last_file, self.origin_us)
            over_us += round(traffic.silence_s * traffic.speed * 1e6)
            for router in ROUTERS:
                last = traffic.last(router, over_us, self._now_us())
                self._put(router, traffic.last_file + 1, last)

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

    def _write(self, number: int) -> None:
        ends_us = self.traffic.time_us(number, self.origin_us)
        for router in ROUTERS:
            self._put(router, number, self.traffic.portion(router, number, ends_us, self._now_us()))
        self.shifted = self.traffic.shifted(number)

    def _put(self, router: str, number: int, table: pa.Table) -> None:
        target = self._folder / router / f"{number:05d}.parquet"
        draft = target.with_name(f".{target.name}")  # Spark does not see names that begin with a dot
        pq.write_table(table, draft)
        draft.replace(target)
        self.sent[router] += table.num_rows

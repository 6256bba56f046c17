"""A program to be killed: `thalweg`, which dies between two sinks of a batch if there is a file die-BATCH."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from thalweg.cli.main import invoke
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.spark.sinks.sink import BatchResults


def main() -> int:
    write = ParquetSink.write

    def dying(sink: ParquetSink, results: BatchResults) -> None:
        told = Path(f"die-{results.batch}")
        if told.exists():
            told.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        write(sink, results)

    ParquetSink.write = dying  # type: ignore[method-assign]
    return invoke(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

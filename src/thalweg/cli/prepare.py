"""Makes later commands start faster: `python -m` this module, once after the installation.

It joins a few rows at one site and at three. Python writes the bytecode of what it loads for that, Numba the
compiled kernel, and the JVM an archive of Spark's classes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

COMMANDS = ("thalweg.cli.main", "thalweg.demo.play", "thalweg.oracle.duck", "thalweg.cost.calibrate")
"""What commands load that the runs here don't."""


def prepare(archive: bool = True) -> Path | None:
    """Returns the JVM's archive; None where it could not be made."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    from thalweg.bench.data import Workload
    from thalweg.bench.watched import watched
    from thalweg.spark.daemon import warm
    from thalweg.spark.java import archive as place
    from thalweg.spark.java import record_classes
    from thalweg.spark.session import end_java

    for name in COMMANDS:
        import_module(name)
    warm()
    kept = place()
    with tempfile.TemporaryDirectory() as home:
        recorded = Path(home) / "spark.jsa"
        if archive:
            record_classes(recorded)
        few = Workload("few", keys=100, rate=100.0, tuples_per_stream=300, rows_per_batch=300)
        for where in ("one", "three"):
            watched(few, where, "simple", Path(home))
        end_java()
        if not recorded.exists():
            return None
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob("spark-*.jsa"):
            old.unlink()
        draft = kept.with_suffix(".draft")
        draft.write_bytes(recorded.read_bytes())
        return draft.replace(kept)


if __name__ == "__main__":
    prepare()

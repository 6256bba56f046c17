"""One Flink job over CSV files, run by the Python of `.peers`: `flink_join.py JOB.json`.

Prints what the job took, from its submission to its end, as one JSON object on the last line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

OPERATORS = {"flink-interval": "IntervalJoin", "flink-multijoin": "MultiJoin"}
"""What the plan of each way must show, so that the figure is not another operator's."""


def main(path: Path) -> None:
    """Run the job that the file describes."""
    job = json.loads(path.read_text())
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "state.backend.type": "hashmap",
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "table.optimizer.multi-join.enabled": str(job["how"] == "flink-multijoin").lower(),
    }.items():
        tables.get_config().set(key, value)
    for statement in job["tables"]:
        tables.execute_sql(statement)
    plan = tables.explain_sql(job["insert"])
    if OPERATORS[job["how"]] not in plan.split("Optimized Execution Plan")[-1]:
        raise SystemExit(f"Flink's plan has no {OPERATORS[job['how']]}:\n{plan}")
    started = time.monotonic()
    tables.execute_sql(job["insert"]).wait()
    print(json.dumps({"seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Three topics of JSON and a query over them."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

GIVEN = ("q.sql", "--catalog", "catalog.yaml", "--out", "out")
SQL = """SELECT a.id AS x, b.id AS y, c.id AS z, result_time
FROM a [RANGE 6 SECONDS], b [PARTITION BY k ROWS 1], c [RANGE 4 SECONDS] WHERE a.k = b.k AND b.k = c.k
"""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of a stream, half a second apart on average and out of order by at most five."""
    rng = random.Random(seed)
    return [
        {"ts": 500 * n + rng.randrange(5000), "k": rng.randrange(4), "id": 1000 * seed + n}
        for n in range(count)
    ]


def write(root: Path, servers: str, topics: dict[str, str], sites: int = 1, more: str = "") -> None:
    """The catalog and the query; `more` are further options of each source."""
    streams = "".join(
        f"""  {name}:
    site: n{n % sites}
    time: ts
    time_unit: milliseconds
    lateness: 10 seconds
    order: id
    schema: {{ts: long, k: int, id: long}}
    source:
      format: kafka
      value: json
      options: {{kafka.bootstrap.servers: "{servers}", subscribe: {topic}{more}}}
"""
        for n, (name, topic) in enumerate(topics.items())
    )
    named = ", ".join(f"n{n}: {{}}" for n in range(sites))
    (root / "catalog.yaml").write_text(f"sites: {{{named}}}\nstreams:\n{streams}")
    (root / "q.sql").write_text(SQL)


def metrics(root: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((root / "out" / "metrics.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def read(root: Path) -> int:
    """So many rows the run has read."""
    return sum(metrics(root).get("input_rows", {}).values())


def live(thalweg: Any, root: Path, steps: list[Any], *more: str) -> tuple[int, str, str]:
    """A run without `--once`: steps are done beside it, each a function and how many rows are read after it.

    Then the run is told to stop.
    """
    over = threading.Event()

    def beside() -> None:
        for step, wanted in steps:
            step()
            while read(root) < wanted and not over.is_set():
                time.sleep(0.05)
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    helper = threading.Thread(target=beside)
    helper.start()
    try:
        ended: tuple[int, str, str] = thalweg("run", *GIVEN, *more, cwd=root)
    finally:
        over.set()
        helper.join()
    return ended


def verified(thalweg: Any, root: Path) -> dict[str, Any]:
    code, out, err = thalweg("verify", *GIVEN, "--json", cwd=root)
    assert code == 0, out + err
    found: dict[str, Any] = json.loads(out)
    assert found["same"]
    assert found["found"] > 0
    return found

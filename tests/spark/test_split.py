"""A query of four streams with its join split in any way: `thalweg run` gives the same results."""

from __future__ import annotations

import json
import random

import pytest

from .feed import SECOND, Feed, catalog_yaml, expected, results_of, written

FOUR = """SELECT a.id AS a_id, b.id AS b_id, c.id AS c_id, d.id AS d_id, a.k
FROM a [RANGE 6 SECONDS], b [RANGE 4 SECONDS], c [RANGE 5 SECONDS], d [RANGE 9 SECONDS]
WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.id <> c.id
"""
COLUMNS = {"ts": "timestamp", "k": "string", "id": "bigint"}


def batches(seed: int) -> list[list[dict]]:
    """Three files whose times go on, out of order; some rows are far too late."""
    rng = random.Random(seed)
    return [
        [
            {
                "ts": (n * 10 + rng.randrange(8) - (30 if rng.random() < 0.1 else 0)) * SECOND,
                "k": rng.choice("xyz"),
                "id": n * 100 + i,
            }
            for i in range(10)
        ]
        for n in range(3)
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("split")
    stats = {"stats": "{rate: 10, distinct: {k: 3}}"}
    feeds = {
        name: Feed(COLUMNS, batches(seed), lateness=8 * SECOND, extra=stats)
        for seed, name in enumerate("abcd")
    }
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds))
    (root / "q.sql").write_text(FOUR)
    return root, expected(FOUR, feeds)


@pytest.mark.parametrize(("mode", "joins"), [("binary", 3), ("never", 1), ("auto", 1)])
def test_however_a_join_is_split_the_results_are_the_same(place, thalweg, mode, joins):
    root, wanted = place
    asked = ("q.sql", "--catalog", "catalog.yaml", "--set", f"split={mode}")
    code, _, err = thalweg("run", *asked, "--out", mode, "--once", "--json", cwd=root)
    assert code == 0, err
    assert wanted and results_of(root / mode) == wanted
    plan = json.loads((root / mode / "plan.json").read_text())
    operators = plan["queries"][0]["deployment"]["operators"]
    assert sum(o["kind"] == "join" for o in operators) == joins
    code, out, err = thalweg(
        "verify", "q.sql", "--catalog", "catalog.yaml", "--out", mode, "--json", cwd=root
    )
    assert code == 0 and json.loads(out)["same"], err

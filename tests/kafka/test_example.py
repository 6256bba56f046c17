"""The example: three topics in, one of them a changing table, and a topic out."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from tests.kafka.place import metrics

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka"


@pytest.fixture
def make():
    spec = importlib.util.spec_from_file_location("kafka_make", EXAMPLE / "make.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def expected(make, count):
    """What the query must give: an order, its payment, the tier at that time."""
    orders, found, tiers = {}, [], {}
    for topic, key, row in make.records(count):
        if topic == "orders":
            orders[key] = row
        elif topic == "customers":
            tiers[row["customer"]] = row["tier"]
        elif row["ts"] - orders[key]["ts"] <= 120_000:
            order = orders[key]
            found.append((key, order["amount"], row["method"], tiers[order["customer"]]))
    return sorted(found)


def test_results_are_in_the_topic_as_json(broker, thalweg, tmp_path, make, capsys):
    for file in ("catalog.yaml", "paid.sql"):
        shutil.copy(EXAMPLE / file, tmp_path)
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text(catalog.read_text().replace("127.0.0.1:9092", broker.servers))
    make.main(["--servers", broker.servers, "--orders", "300"])
    assert "records" in capsys.readouterr().out
    given = ("paid.sql", "--catalog", "catalog.yaml", "--out", "out")
    code, _, err = thalweg("run", *given, "--once", cwd=tmp_path)
    assert code == 0, err
    wanted = expected(make, 300)
    assert metrics(tmp_path)["output_rows"] == {"paid": len(wanted)}
    code, out, err = thalweg("verify", *given, "--json", cwd=tmp_path)
    assert code == 0, out + err
    make.main(["--servers", broker.servers, "--show", "paid"])
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted((r["order_id"], r["amount"], r["method"], r["tier"]) for r in shown) == wanted
    assert len({r["result_id"] for r in shown}) == len(wanted) > 100

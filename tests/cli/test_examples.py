"""The examples of the documents: every planner that applies plans them, in every objective."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
AIRPORT = ("gate.sql", "terminal.sql", "--catalog", "airport.yaml", "--deliver-to", "displays")
OBJECTIVES = ("bytes", "usage", "dollars", "time")


@pytest.fixture
def compare(thalweg, monkeypatch):
    monkeypatch.chdir(EXAMPLES)

    def compared(*arguments):
        done = thalweg("compare", *arguments, "--json")
        assert (done.status, done.err) == (0, "")
        return {p["name"]: p for p in done.json["planners"]}

    return compared


def test_routers(compare):
    found = compare("routers.sql", "--catalog", "routers.yaml", "--set", "partitions=3")
    assert found["simple"]["cost"] == pytest.approx(100.1)
    assert found["streamjoinopt"]["cost"] == pytest.approx(54.03, abs=0.005)
    assert found["pmjoin"]["cost"] == pytest.approx(0.0696)
    assert found["auto"]["cost"] == pytest.approx(0.0696)
    assert found["simple"]["distance_percent"] == pytest.approx(85.26, abs=0.01)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_airport(compare, objective):
    found = compare(*AIRPORT, "--objective", objective)
    assert found["optimal"]["cost"] == pytest.approx(found["exhaustive"]["cost"])
    assert found["linear-optimal"]["cost"] == pytest.approx(found["semijoin-exhaustive"]["cost"])
    assert all(p["distance_percent"] >= 0 for p in found.values())
    assert found["auto"]["cost"] <= min(p["cost"] for p in found.values()) * (1 + 1e-6)

"""The text of probe sequences: each head in a line or two."""

from pathlib import Path

from thalweg.catalog import load
from thalweg.cli.main import invoke
from thalweg.plan.options import PlanOptions
from thalweg.plan.ways import WIDTH, ways
from thalweg.planners.table import make_plan
from thalweg.query import parse

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ARGUMENTS = [EXAMPLES / "terminal.sql", "--catalog", EXAMPLES / "airport.yaml"]


def planned(planner):
    known = load(EXAMPLES / "airport.yaml")
    text = (EXAMPLES / "terminal.sql").read_text()
    query = parse(text, name="terminal", schemas=known.schemas, times=known.times)
    return make_plan([query], known, PlanOptions(planner)).queries[0].deployment


def test_each_head_is_told_in_its_order():
    lines = ways(planned("linear-greedy"))
    assert [line.split(" at ")[0] for line in lines if line.startswith("head")] == [
        "head f",
        "head w",
        "head c",
        "head b",
    ]
    first = (
        "head f at flights_dc, filtered by `f`.`terminal` = 'B': w at weather_dc by SP-D (100 bytes/s), c at"
    )
    assert lines[0].startswith(first)
    assert "0.05312 results/s" in " ".join(lines)


def test_semijoins_are_told_with_all_that_they_ship():
    lines = ways(planned("linear-optimal"))
    assert len(lines) <= 2 * 4
    assert max(map(len, lines)) <= WIDTH
    assert "c at gates by SM-D2 (19.38 bytes/s)" in lines[0]  # 14.7856 + 0.591405 + 3.99987


def test_trees_have_no_heads():
    assert ways(planned("optimal")) == []


def test_the_command_shows_heads_and_with_verbose_all_operators(capsys):
    assert invoke(["plan", *map(str, ARGUMENTS), "--planner", "linear-optimal"]) == 0
    short = capsys.readouterr().out
    assert "head f at flights_dc" in short and "reduce at" not in short
    assert len(short.splitlines()) < 20
    assert invoke(["plan", *map(str, ARGUMENTS), "--planner", "linear-optimal", "--verbose"]) == 0
    long = capsys.readouterr().out
    assert "c^f.reduce: reduce at flights_dc" in long
    assert len(long.splitlines()) > 50

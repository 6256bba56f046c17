"""What commands print, and how they end."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.cli import main

PLAN = ("plan", "q.sql", "--catalog", "catalog.yaml")
VERIFY = ("verify", "q.sql", "--catalog", "catalog.yaml", "--out", "out")


def wrong(result):
    """The one message of a command that was given wrong input."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("thalweg: ")
    assert result.err.count("\n") == 1
    return result.err


def test_plan_as_json_has_the_shape_that_is_promised(folder, thalweg):
    plan = thalweg(*PLAN, "--json").json
    assert list(plan) == ["objective", "total", "queries"]
    (query,) = plan["queries"]
    assert list(query) == [
        *("query", "planner", "cost", "marginal_cost", "searched", "elapsed_ms", "assumed", "warnings"),
        "deployment",
    ]
    assert query["query"] == "q"
    assert list(query["deployment"]) == ["operators", "edges"]
    assert query["deployment"]["operators"][0] == {
        "id": "a",
        "kind": "source",
        "site": "n1",
        "inputs": [],
        "stream": "s1",
    }
    assert "streams.s2.stats.rate = 1000" in query["assumed"]


def test_plan_for_readers(folder, thalweg):
    shown = thalweg(*PLAN, "--objective", "time", "--deliver-to", "n1", "--set", "width=equal")
    assert shown.status == 0
    assert "<- a: 10 tuples/s, 10 bytes/s" in shown.out
    assert "streams.s2.stats.rate = 1000" in shown.out


def test_plans_of_several_queries_are_saved_in_order(folder, thalweg):
    (folder / "r.sql").write_text((folder / "q.sql").read_text())
    done = thalweg("plan", "r.sql", "q.sql", "--catalog", "catalog.yaml", "--save", "plan.json", "--json")
    assert [q["query"] for q in done.json["queries"]] == ["r", "q"]
    assert json.loads((folder / "plan.json").read_text())["format"] == "thalweg-plan"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "none.sql", "--catalog", "catalog.yaml"), "none.sql"),
        (("plan", "q.sql", "--catalog", "none.yaml"), "none.yaml"),
        (("plan", "dir.sql", "--catalog", "catalog.yaml"), "dir.sql: this is a folder"),
        (("plan", "latin.sql", "--catalog", "catalog.yaml"), "UTF-8"),
        (("plan", "a-b.sql", "--catalog", "catalog.yaml"), "'a-b' is not a valid query name"),
        (("plan", "bad.sql", "--catalog", "catalog.yaml"), "bad.sql"),
        (("plan", "q.sql", "sub/q.sql", "--catalog", "catalog.yaml"), "two queries are named 'q'"),
        ((*PLAN, "--planner", "best"), "there are auto, local, simple"),
        ((*PLAN, "--objective", "fame"), "bytes, usage, dollars, time"),
        ((*PLAN, "--deliver-to", "n3"), "n1, n2"),
        ((*PLAN, "--set", "height=3"), "width"),
        ((*PLAN, "--set", "width"), "KEY=VALUE"),
        ((*PLAN, "--set", "width=equal", "--set", "width=equal"), "twice"),
        ((*PLAN, "--save", "sub"), "can't be written"),
        ((*PLAN, "--colour"), "--colour"),
        (("plan", "q.sql"), "--catalog"),
        (("plan", "--catalog", "catalog.yaml"), "QUERY.sql"),
        (("fly",), "fly"),
        (VERIFY, "no such folder"),
        (("verify", "q.sql", "--catalog", "catalog.yaml", "--out", "sub"), "no results of query 'q'"),
    ],
)
def test_wrong_input_is_one_message_and_status_2(folder, thalweg, arguments, message):
    (folder / "dir.sql").mkdir()
    (folder / "sub").mkdir()
    (folder / "sub" / "q.sql").write_text("")
    (folder / "a-b.sql").write_text((folder / "q.sql").read_text())
    (folder / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    (folder / "bad.sql").write_text("SELECT 1")
    assert message in wrong(thalweg(*arguments))
    assert message in wrong(thalweg(*arguments, "--json"))


NAMES = [
    *("auto", "local", "simple", "streamjoinopt", "exhaustive", "top-down", "bottom-up", "npc"),
    *("plan-then-deploy", "in-network", "relaxation", "optimal"),
    *("pmjoin", "pmjoin-optimal"),
    *("linear-greedy", "semijoin-greedy", "semijoin-exhaustive", "linear-optimal"),
]


def test_planners(thalweg):
    assert [p["name"] for p in thalweg("planners", "--json").json["planners"]] == NAMES
    assert "local" in thalweg("planners").out


def results(folder, rows):
    (folder / "out" / "results" / "q").mkdir(parents=True, exist_ok=True)
    columns = {"x": [x for x, _ in rows], "y": [y for _, y in rows]}
    pq.write_table(pa.table(columns), folder / "out" / "results" / "q" / "0.parquet")


def test_verify_says_same_or_shows_the_difference(folder, thalweg):
    results(folder, [("s1.1", "s2.1"), ("s1.2", "s2.2")])
    same = thalweg(*VERIFY, "--json")
    assert same.status == 0
    assert same.json == {"same": True, "expected": 2, "found": 2, "missing": 0, "extra": 0, "examples": []}
    assert "same: 2 results" in thalweg(*VERIFY).out

    results(folder, [("s1.1", "s2.1"), ("s1.1", "s2.2")])
    different = thalweg(*VERIFY, "--json")
    assert (different.status, different.err) == (1, "")
    assert different.json["examples"] == [
        {"kind": "missing", "row": {"x": "s1.2", "y": "s2.2"}},
        {"kind": "extra", "row": {"x": "s1.1", "y": "s2.2"}},
    ]
    shown = thalweg(*VERIFY)
    assert shown.status == 1
    assert "1 missing, 1 extra" in shown.out


def test_verify_of_a_run_that_is_not_complete_says_so(folder, thalweg):
    results(folder, [("s1.1", "s2.1")])
    metrics = folder / "out" / "metrics.json"
    for text, told in (
        ('{"complete": false}', "thalweg run` command resumes it"),
        ('{"complete": true}', ""),
        ("{", ""),
    ):
        metrics.write_text(text)
        for arguments in (VERIFY, (*VERIFY, "--json")):
            different = thalweg(*arguments)
            assert different.status == 1
            assert told in different.err
            assert bool(told) == bool(different.err)
        assert list(different.json) == ["same", "expected", "found", "missing", "extra", "examples"]
    metrics.write_text('{"complete": false}')
    results(folder, [("s1.1", "s2.1"), ("s1.2", "s2.2")])
    assert thalweg(*VERIFY).err == ""


def test_a_fault_of_ours_is_short_unless_asked(folder, thalweg, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("thalweg.planners.table.make_plan", broken)
    result = thalweg(*PLAN, "--json")
    assert (result.status, result.out) == (1, "")
    assert result.err == "thalweg: RuntimeError: first line (THALWEG_DEBUG=1 shows the traceback)\n"
    monkeypatch.setenv("THALWEG_DEBUG", "1")
    assert "Traceback" in thalweg(*PLAN).err


def test_interrupted(folder, thalweg, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("thalweg.planners.table.make_plan", interrupt)
    stopped = thalweg(*PLAN)
    assert (stopped.status, stopped.err) == (1, "thalweg: interrupted\n")


def test_help_and_version(thalweg):
    assert thalweg("--version").out.startswith("thalweg 0.")
    for arguments in (
        ("--help",),
        ("plan", "--help"),
        ("run", "--help"),
        ("verify", "--help"),
        ("planners", "--help"),
    ):
        shown = thalweg(*arguments)
        assert (shown.status, shown.err) == (0, "")
        assert "Usage" in shown.out


def test_as_a_program_and_without_heavy_imports(folder):
    code = (
        "import sys; from thalweg.cli.main import invoke; status = invoke(sys.argv[1:]); "
        "known = {'pyspark', 'duckdb', 'sqlglot', 'numba', 'pandas', 'pyarrow', 'matplotlib'}; "
        "heavy = known & set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    with pytest.raises(SystemExit) as ended:
        main.main(["plan", "none.sql", "--catalog", "catalog.yaml"])
    assert ended.value.code == 2

"""How `run` reads its options and shows progress; a stand-in takes the place of Spark."""

import contextlib
import dataclasses
import datetime
import io
import json
import sys
import time
import types

import pytest
from rich.console import Console

from thalweg.cli.progress import Lines, Live, Silent, line, reporter, table
from thalweg.plan.options import PlanChange, PlanInForce, Progress, Shipped

RUN = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out")
METRICS = {
    "input_rows": {"s1": 2, "s2": 2},
    "output_rows": {"q": 2},
    "late_rows": {"s1": 0, "s2": 0},
    "shipped": [],
    "central_payload_bytes": 0,
    "elapsed_s": 1.5,
    "batches": 1,
    "complete": True,
}


SEVERAL = {
    **METRICS,
    "shipped": [{"from": "n2", "to": "n1", "tuples": 2, "payload_bytes": 2_000, "bytes": 3_000}],
    "central_payload_bytes": 5_000,
}


def progress(batch):
    return Progress(batch, 100 * batch, 10, 1, 50.0, 2.0, 2048, 7, 1.0 * batch)


@pytest.fixture
def runs(monkeypatch):
    """The options of every run that was started."""
    started = []

    def run(options, report):
        report.starting()
        report.message("starting")
        report.batch(progress(1))
        started.append(options)
        return METRICS

    monkeypatch.setitem(sys.modules, "thalweg.spark.run", types.SimpleNamespace(run=run))
    return started


def test_the_options_reach_the_run(folder, thalweg, runs):
    done = thalweg(*RUN, "--once", "--master", "local[2]", "--json")
    assert done.json == METRICS
    assert done.err == ""
    (options,) = runs
    assert [q.name for q in options.queries] == ["q"]
    assert (str(options.out), options.once, options.master) == ("out", True, "local[2]")
    assert options.plan.queries[0].deployment.sites == ("n1",)


def test_for_readers_progress_goes_to_standard_error(folder, thalweg, runs):
    done = thalweg(*RUN)
    assert "batch 1: 100 rows in" in done.err
    assert "starting Spark" not in done.err  # a log needs no reassurance
    assert "complete" in done.out
    assert "1 batch in 1.5 s" in done.out
    assert "batch 1:" not in done.out
    assert runs[0].once is False


def test_the_log_can_be_json(folder, thalweg, runs):
    done = thalweg(*RUN, "--log", "json")
    told = [json.loads(line) for line in done.err.splitlines()]
    assert [(one["level"], one["event"]) for one in told] == [
        ("info", "starting"),
        ("info", "message"),
        ("info", "batch"),
    ]
    assert told[1]["text"] == "starting"
    assert (told[2]["batch"], told[2]["input_rows"], told[2]["shipped"]) == (1, 100, [])
    assert datetime.datetime.fromisoformat(told[0]["at"]).tzinfo is not None


@pytest.mark.parametrize("given", [("--page",), ("--page", "0"), ("--page=0",)])
def test_a_page_beside_the_run(folder, thalweg, runs, monkeypatch, given):
    asked = []

    @contextlib.contextmanager
    def beside(out, access):
        asked.append((str(out), access.port))
        yield "http://127.0.0.1:8484"

    monkeypatch.setattr("thalweg.page.serve.beside", beside)
    done = thalweg(*RUN, *given, "--once")
    assert done.status == 0
    assert asked == [("out", None)]
    assert "page: http://127.0.0.1:8484/" in done.err


def test_a_port_that_is_none(folder, thalweg, runs):
    for port in ("70000", "-5"):
        done = thalweg(*RUN, "--page", port)
        assert done.status == 2 and "--page" in done.err
    assert not runs


@pytest.fixture
def several(folder, monkeypatch):
    """A run over two sites that leaves what such a run leaves; complete when it is asked to be."""
    text = (folder / "catalog.yaml").read_text()
    at = text.rindex("site: n1")
    (folder / "catalog.yaml").write_text(text[:at] + "site: n2" + text[at + len("site: n1") :])

    def run(options, report):
        options.out.mkdir(exist_ok=True)
        options.plan.save(options.out / "plan.json")
        metrics = {**SEVERAL, "complete": options.once}
        (options.out / "metrics.json").write_text(json.dumps(metrics))
        return metrics

    monkeypatch.setitem(sys.modules, "thalweg.spark.run", types.SimpleNamespace(run=run))
    return folder


def test_a_run_over_sites_ends_with_what_was_shipped_and_a_picture(several, thalweg):
    for given, ended in (((), "stopped"), (("--once",), "complete")):
        done = thalweg(*RUN, *given)
        assert done.status == 0
        assert ended in done.out
        assert "shipped between sites" in done.out
        assert "2.5 times less than every stream whole to one site" in done.out
        assert "traffic between sites: out/network.svg" in done.out
        drawn = (several / "out" / "network.svg").read_text()
        assert "2 kB, 2 tuples" in drawn
        assert (", stopped" in drawn) is (not given)


def test_a_complete_run_keeps_its_picture(several, thalweg):
    assert thalweg(*RUN, "--once", "--json").json == SEVERAL
    picture = several / "out" / "network.svg"
    picture.write_text("mine")
    assert "network.svg" not in thalweg(*RUN, "--once").out
    assert picture.read_text() == "mine"
    picture.unlink()
    assert thalweg(*RUN, "--once", "--json").json == SEVERAL
    assert "<svg" in picture.read_text()


def test_a_picture_that_can_not_be_drawn_fails_no_run(several, thalweg):
    (several / "out" / "network.svg").mkdir(parents=True)
    done = thalweg(*RUN, "--once")
    assert done.status == 0
    assert "no picture" in done.err


def test_a_run_at_one_site_draws_nothing(folder, thalweg, runs):
    (folder / "out").mkdir()
    done = thalweg(*RUN)
    assert "shipped" not in done.out
    assert not list((folder / "out").iterdir())


def on_terminal(shown):
    out = io.StringIO()
    Console(file=out, width=100).print(table(shown))
    return out.getvalue()


def test_what_goes_between_sites_is_shown_beside_the_central_plan():
    ways = tuple(Shipped("n1", f"m{n}", n, 1000 * n, 1500 * n) for n in range(8))
    shown = dataclasses.replace(progress(1), shipped=ways, central_bytes=280_000)
    text = line(shown)
    assert "; shipped 28 kB (42 kB), 10.0 times less than the 280 kB centrally: n1 to m7 7 kB" in text
    assert text.endswith("n1 to m4 4 kB (6 kB), 4 others 6 kB (9 kB)")
    shown_live = on_terminal(shown)
    for part in ("n1 to m7", "10.5 kB", "4 others", "together", "280 kB", "10.0 times less"):
        assert part in shown_live
    assert "shipped" not in line(progress(1))


def test_a_run_that_adapts_shows_its_plan_and_the_last_change():
    plan = PlanInForce("pmjoin", 1234.5, "bytes/s between sites")
    assert line(dataclasses.replace(progress(1), plan=plan)).endswith(
        "; plan by pmjoin, 1,234.5 bytes/s between sites, 0 changes"
    )
    change = PlanChange(time.time() - 300, "saves 61% of the cost", ("[a] rate: 9, now 2",), "moving")
    for outcome, changes, shown in (
        ("moving", 0, "0 changes; the last 5.0 min ago, on its way: saves 61% of the cost"),
        ("done", 1, "1 change; the last 5.0 min ago: saves 61% of the cost"),
        ("undone", 2, "2 changes; the last 5.0 min ago, undone: saves 61% of the cost"),
    ):
        last = dataclasses.replace(change, outcome=outcome)
        moved = dataclasses.replace(progress(1), plan=dataclasses.replace(plan, changes=changes, last=last))
        assert line(moved).endswith(f", {shown} ([a] rate: 9, now 2)")
    ways = (Shipped("n1", "n2", 1, 1000, 1500),)
    text = on_terminal(dataclasses.replace(moved, shipped=ways, central_bytes=280_000))
    for part in (
        "plan         pmjoin, 1,234.5 bytes/s between sites, 2 changes",
        "last change  5.0 min ago, undone: saves 61% of the cost ([a] rate: 9, now 2)",
        "n1 to n2",
    ):
        assert part in text
    assert "last change  none" in on_terminal(dataclasses.replace(progress(1), plan=plan))
    assert "last change" not in on_terminal(progress(1)) + line(progress(1))


def test_a_saved_plan_is_used_if_it_is_of_these_queries(folder, thalweg, runs):
    assert thalweg("plan", "q.sql", "--catalog", "catalog.yaml", "--save", "plan.json").status == 0
    assert thalweg(*RUN, "--plan", "plan.json").status == 0
    assert runs[0].plan.queries[0].query == "q"

    for change, message in (
        (("--plan", "plan.json", "--objective", "time"), "planning options"),
        (("--plan", "none.json"), "can't be read"),
        (("--plan", "q.sql"), "not JSON"),
    ):
        refused = thalweg(*RUN, *change)
        assert (refused.status, message in refused.err) == (2, True)

    text = (folder / "q.sql").read_text()
    (folder / "q.sql").write_text(text.replace("10 SECONDS", "11 SECONDS"))
    refused = thalweg(*RUN, "--plan", "plan.json")
    assert refused.status == 2
    assert "has changed" in refused.err
    (folder / "r.sql").write_text(text)
    refused = thalweg("run", "r.sql", *RUN[2:], "--plan", "plan.json")
    assert refused.status == 2
    assert "for q, not for r" in refused.err
    assert len(runs) == 1


def test_wrong_input_starts_nothing(folder, thalweg, runs):
    (folder / "file").write_text("")
    assert thalweg("run", "q.sql", "q.sql", *RUN[2:]).status == 2
    assert thalweg("run", "q.sql", "--catalog", "catalog.yaml", "--out", "file").status == 2
    assert thalweg("run", "q.sql", "--catalog", "catalog.yaml").status == 2
    assert runs == []


def test_lines_come_at_most_once_a_second_and_the_last_always():
    now = [0.0]
    out = io.StringIO()
    lines = Lines(out, clock=lambda: now[0])
    for batch, moment in ((1, 0.0), (2, 0.4), (3, 0.8), (4, 1.1), (5, 1.2)):
        now[0] = moment
        lines.batch(progress(batch))
    lines.close()
    lines.close()
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == ["batch 1", "batch 4", "batch 5"]


def test_a_terminal_gets_a_live_table():
    out = io.StringIO()
    live = Live(Console(file=out, force_terminal=True, width=80))
    live.starting()
    live.message("[starting]")
    live.batch(progress(1))
    live.batch(progress(2))
    live.close()
    live.close()
    shown = out.getvalue()
    assert "starting Spark\n[starting]" in shown
    assert "rows a second" in shown
    assert "2.0 KiB" in shown


def test_the_reporter_suits_the_place():
    assert isinstance(reporter(silent=True), Silent)
    assert isinstance(reporter(stream=io.StringIO()), Lines)

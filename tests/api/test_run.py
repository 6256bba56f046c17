"""The handle of a run: its process is a real one, in which a stand-in takes the place of Spark."""

import json
import logging
import pickle
import subprocess
import sys
import types

import pytest

import thalweg
from tests.cli.test_run_command import METRICS, SEVERAL
from thalweg.api import run as running

STAND_IN = """
import json, os, signal, sys, threading, time, types
from thalweg.errors import RunError, Stopped, UserError
from thalweg.plan.options import Progress

def run(options, report):
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    report.starting()
    report.message("it begins")
    report.warn("a file was empty")
    report.batch(Progress(3, 100, 10, 1, 50.0, 2.0, 2048, 7, 1.0))
    metrics = json.loads({metrics!r})
    {then}
    return metrics

sys.modules["thalweg.spark.run"] = types.SimpleNamespace(run=run)
from thalweg.api import child
child.main(int(sys.argv[1]))
"""
UNTIL_STOPPED = """
    assert told.wait()
    metrics["complete"] = False
    if options.once:
        raise Stopped(metrics, signal.SIGTERM)
"""


@pytest.fixture
def stand_in(monkeypatch):
    """Says what happens in the process of a run after its first batch."""

    def then(what="", metrics=METRICS):
        code = STAND_IN.format(metrics=json.dumps(metrics), then=what)
        monkeypatch.setattr(running, "_CHILD", ("-c", code))

    return then


def begun(**more):
    return thalweg.run("q.sql", "catalog.yaml", "out", **more)


def test_a_run_that_completes(folder, stand_in, caplog):
    caplog.set_level(logging.INFO, "thalweg")
    stand_in()
    run = begun(once=True)
    assert isinstance(run, thalweg.Run)
    metrics = run.wait()
    assert isinstance(metrics, thalweg.Metrics)
    assert metrics.to_json() == {**METRICS, "plan_changes": 0}
    assert (run.state, run.metrics, run.progress.output_rows) == ("complete", metrics, 10)
    assert [(m.level, m.text) for m in run.messages] == [
        ("info", "it begins"),
        ("warning", "a file was empty"),
    ]
    assert [r.getMessage() for r in caplog.records] == ["it begins", "a file was empty"]
    assert repr(run) == "<run in out: complete, batch 3, 10 results>"
    assert run.stop() == metrics  # nothing is left to stop


def test_what_a_plan_ships_is_typed():
    (way,) = thalweg.Metrics.of({**SEVERAL, "unknown": 1}).shipped
    assert (way.source, way.target, way.payload_bytes) == ("n2", "n1", 2_000)


def test_a_run_is_stopped_cleanly_also_at_its_very_start(folder, stand_in):
    stand_in(UNTIL_STOPPED)
    with begun(once=True) as run:
        with pytest.raises(TimeoutError, match="the run has not ended in 0 seconds"):
            run.wait(0)
        assert (run.state, run.metrics) in (("starting", None), ("running", None))
    assert run.state == "stopped"
    assert not run.wait().complete


@pytest.mark.parametrize(
    ("then", "error", "message"),
    [
        (
            "raise UserError('no such column', where='q.sql', remedy='there is k')",
            thalweg.UserError,
            "q.sql: no such column; there is k",
        ),
        ("os._exit(7)", thalweg.RunError, "has ended with status 7, without a word; the same call continues"),
    ],
)
def test_a_run_that_fails_raises_its_error(folder, stand_in, then, error, message):
    stand_in(then)
    run = begun()
    with pytest.raises(error, match=message):
        run.wait()
    assert run.state == "failed"
    assert message.split(";")[0] in repr(run)
    assert message.split(";")[0] in run._repr_html_()


def test_a_run_ends_with_the_program_that_began_it(folder):
    code = STAND_IN.format(metrics=json.dumps(METRICS), then=UNTIL_STOPPED + "    open('ended', 'w').close()")
    program = (
        "import sys, thalweg; from thalweg.api import run as running; running._CHILD = ('-c', sys.argv[1]); "
        "run = thalweg.run('q.sql', 'catalog.yaml', 'out'); print(run.state)"
    )
    done = subprocess.run([sys.executable, "-c", program, code], capture_output=True, text=True, check=True)
    assert done.stdout in ("starting\n", "running\n")
    assert (folder / "ended").exists()


def test_a_notebook_shows_a_run_and_keeps_the_display_up_to_date(folder, stand_in, monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    def display(html, display_id):
        assert display_id is True
        shown.append(html)
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(HTML=str, display=display))
    monkeypatch.setattr(running, "_REDRAWN_S", 0.0)
    stand_in(UNTIL_STOPPED)
    run = begun()
    run._ipython_display_()
    assert "<b>out</b> starting" in shown[0]
    run.stop()
    assert len(shown) > 1
    run._child.wait()
    assert "<b>out</b> stopped" in run._repr_html_()


def test_a_page_that_can_not_be_shown_is_refused_at_once(folder, stand_in, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(thalweg.UserError, match=r"the page needs uvicorn; pip install 'thalweg\[page\]'"):
        begun(page=True)


def test_errors_survive_the_way_between_processes():
    error = pickle.loads(pickle.dumps(thalweg.UserError("what", where="here", remedy="do this")))
    assert (str(error), error.where, error.remedy) == ("here: what; do this", "here", "do this")


@pytest.mark.long
def test_a_run_on_spark_beside_the_session_of_the_caller(apart, spark):
    """The session of the caller stays, and the run has a page of its own."""
    made = thalweg.plan("q.sql", "catalog.yaml", deliver_to="n2")
    run = thalweg.run("q.sql", "catalog.yaml", "out", plan=made, once=True, master="local[2]", page=True)
    assert run.wait().output_rows == {"q": 2}
    assert run.page.startswith("http://127.0.0.1:")
    assert thalweg.verify("q.sql", "catalog.yaml", "out")
    assert "<svg" in run._repr_html_()
    assert "between sites" in run._repr_html_()
    again = thalweg.run("q.sql", "catalog.yaml", "out", plan=made, once=True)
    assert again.wait().complete
    assert "complete; nothing to do" in again.messages[-1].text
    assert spark.range(3).count() == 3

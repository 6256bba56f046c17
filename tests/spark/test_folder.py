"""The files that a run keeps for itself, damaged: each is named, with what to do. Without Spark."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from thalweg.cli.main import invoke
from thalweg.errors import RunError, UserError
from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import Edge
from thalweg.operators.output import Report
from thalweg.operators.state import FORMAT
from thalweg.processes import Process
from thalweg.spark import run as module
from thalweg.spark.error_messages import in_our_words
from thalweg.spark.folder import Folder
from thalweg.spark.tally import Tally

from .test_run import one_message

METRICS = {
    **{"input_rows": {"a": 1}, "output_rows": {"q": 2}, "late_rows": {"a": 0}, "shipped": []},
    **{"elapsed_s": 1.0, "batches": 1, "complete": True},
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a query up to the start of Spark: (exit status, standard error)."""
    stream = "{site: here, time: ts, schema: {ts: timestamp, k: long}, source: {format: rate}}"
    (tmp_path / "catalog.yaml").write_text(f"sites: {{here: {{}}}}\nstreams: {{a: {stream}, b: {stream}}}\n")
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k\n")
    monkeypatch.chdir(tmp_path)

    def start(*_):
        raise RuntimeError("Spark starts")

    monkeypatch.setattr(module, "session", start)
    handlers = {told: signal.getsignal(told) for told in (signal.SIGINT, signal.SIGTERM)}

    def call():
        status = invoke(["run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json"])
        return status, capsys.readouterr().err

    yield call
    for told, handler in handlers.items():
        signal.signal(told, handler)


def without(whole, part):
    return json.dumps({k: v for k, v in whole.items() if k != part})


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("metrics.json", '{"complete": fal', "is damaged: it is not JSON; remove it"),
        ("metrics.json", "[]", "is damaged: it has no 'input_rows'; remove it"),
        ("metrics.json", without(METRICS, "complete"), "it has no 'complete'; remove it"),
        ("metrics.json", json.dumps({**METRICS, "output_rows": 3}), "it has no 'output_rows'; remove it"),
        ("_thalweg/job.json", "", "is damaged: it is not JSON; start the run in a new folder"),
        ("_thalweg/job.json", "[" * 100_000, "is damaged: it is not JSON; start the run in a new folder"),
        ("_thalweg/job.json", '"x"', "it has no 'queries'; start the run in a new folder"),
        ("_thalweg/job.json", "{}", "it has no 'queries'; start the run in a new folder"),
        ("_thalweg/jvm", "", "it has no process id; remove it when no Spark of an earlier run is left"),
        ("_thalweg/jvm", "../../etc\0\xff", "it has no process id; remove it"),
    ],
)
def test_a_damaged_file_of_the_run_is_named_with_what_to_do(run, tmp_path, file, text, message):
    assert run()[0] == 1
    (tmp_path / "out" / file).write_text(text)
    status, err = run()
    assert status == 2
    assert f"out/{file}: " in one_message(err)
    assert message in err


def test_a_file_of_the_run_that_is_a_folder_is_named(run, tmp_path):
    assert run()[0] == 1
    (tmp_path / "out" / "_thalweg" / "job.json").unlink()
    (tmp_path / "out" / "_thalweg" / "job.json").mkdir()
    status, err = run()
    assert (status, "_thalweg/job.json: can't be used: Is a directory" in one_message(err)) == (2, True)


def a_tally() -> Tally:
    tally = Tally()
    report = Report(read={"a": 3}, newest={"a": 7}, ended=["1/x"])
    tally.count(0, report, {"q": 2}, {Edge("n1", "n2"): Sent(4, 0, 1, 8, 40)})
    return tally


@pytest.mark.parametrize(
    "change",
    [
        {"sent": {"../x": 1}},
        {"sent": {"n1-n2": "4"}},
        {"batch": None},
        {"before": {}, "last": {"sent": {"n1-n2": [1, 2]}}},
        {"last": {"read": [3]}},
        {"ended": {"1/x": 1}},
    ],
    ids=str,
)
def test_damaged_counts_are_named(tmp_path, change):
    folder = Folder(tmp_path)
    folder.own.mkdir()
    folder.save_tally(a_tally())
    assert folder.tally() == a_tally()
    file = folder.own / "tally.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match=r"tally\.json: is damaged: .*; start the run in a new folder"):
        folder.tally()
    file.write_bytes(b'{"batch": \xff')
    with pytest.raises(UserError, match=r"tally\.json: is damaged"):
        folder.tally()


@pytest.mark.parametrize("full", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_not_the_users_input(run, monkeypatch, full):
    def fail(path, *_, **__):
        raise OSError(full, os.strerror(full), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        status, err = run()
    assert status == 1
    assert f"out: can't be made: {os.strerror(full)}; make room there" in one_message(err)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/data/out/metrics.json"),
        Exception("thalweg.errors.RunError: /x/1.draft: can't be used: No space left on device; make room"),
        Exception("thalweg.errors.UserError: /x/2: could not be written: No space left on device; make room"),
        Exception("An error occurred.\n: java.io.IOException: No space left on device\n\tat java"),
    ],
    ids=["driver", "exchange", "spilled", "jvm"],
)
def test_a_disk_that_is_full_in_mid_run_is_not_the_users_input(error):
    told = in_our_words(error, "q.sql")
    assert isinstance(told, RunError)
    assert "No space left on device; make room" in str(told)


def test_a_second_run_on_a_folder_is_refused(run, tmp_path):
    (tmp_path / "out" / "_thalweg").mkdir(parents=True)
    with (tmp_path / "out" / "_thalweg" / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, err = run()
    assert status == 2
    assert "another run is using" in one_message(err)


@pytest.mark.parametrize("same", [True, False])
def test_only_the_jvm_of_an_earlier_run_is_waited_for(run, tmp_path, monkeypatch, same):
    """Not any later process that has got its number."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    own = Process.of(os.getpid())
    (tmp_path / "out" / "_thalweg").mkdir(parents=True)
    (tmp_path / "out" / "_thalweg" / "jvm").write_text(str(own if same else own._replace(started=1)))
    status, err = run()
    assert ("has not ended" in err) == same
    assert (status == 2) == same


def test_a_run_with_the_state_of_another_version_is_refused(run, tmp_path):
    assert run()[0] == 1
    programs = tmp_path / "out/_thalweg/programs"
    programs.mkdir()
    (programs / "000000000.json").write_text('{"format": 4, "program": {}}')
    wanted = f"its state has format 4, and this version reads format {FORMAT}; continue it with that version"
    status, err = run()
    assert status == 2
    assert wanted in one_message(err)


def test_a_catalog_that_an_earlier_version_wrote_down_is_the_same_one(run, tmp_path):
    """What it did not know has its default now; what it knew must be the same."""
    assert run()[0] == 1
    offsets = tmp_path / "out/_thalweg/checkpoint/offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}")  # it has begun
    path = tmp_path / "out/_thalweg/job.json"
    job = json.loads(path.read_text())
    for stream in job["catalog"]["streams"].values():
        del stream["time_unit"], stream["source"]["value"]
    path.write_text(json.dumps(job))
    assert run() == (1, "thalweg: RuntimeError: Spark starts (THALWEG_DEBUG=1 shows the traceback)\n")
    (offsets / "0").write_text("v1\n{}")
    job["catalog"]["streams"]["a"]["lateness"] = 1
    path.write_text(json.dumps(job))
    status, err = run()
    assert (status, "belongs to a run with another catalog" in one_message(err)) == (2, True)


def test_nobody_else_can_read_the_runs_own_folder(run, tmp_path):
    own = tmp_path / "out" / "_thalweg"
    own.mkdir(parents=True, mode=0o755)
    run()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_the_runs_own_folder_is_no_link(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_thalweg").symlink_to(tmp_path / "elsewhere")
    status, err = run()
    assert status == 2
    assert "_thalweg is a link; name a new folder" in one_message(err)
    assert not list((tmp_path / "elsewhere").iterdir())

"""How a run is, as it says itself and as its process shows."""

import os
from dataclasses import replace

from thalweg.catalog import load
from thalweg.live.asked import Asked
from thalweg.live.status import EVENTS, Diary, Status
from thalweg.plan.options import Objective, PlanOptions


def test_a_diary_is_kept_over_restarts(tmp_path):
    path, now = tmp_path / "status.json", [100.0]
    first = Diary.begin(path, lambda: now[0])
    assert Status.load(path).state == "starting"
    first.running()
    first.say("warning", "a file was empty")
    first.end("stopped")
    assert (Status.load(path).state, Status.load(path).ended) == ("stopped", 100.0)
    now[0] = 200.0
    Diary.begin(path, lambda: now[0])
    found = Status.load(path)
    assert (found.starts, found.first_start, found.started, found.ended) == (2, 100.0, 200.0, None)
    assert [e.text for e in found.events] == ["a file was empty"]


def test_only_the_last_messages_are_kept(tmp_path):
    diary = Diary.begin(tmp_path / "status.json")
    for n in range(EVENTS + 5):
        diary.say("info", str(n))
    assert [e.text for e in Status.load(diary.path).events] == [str(n) for n in range(5, EVENTS + 5)]


def test_a_run_whose_process_is_gone_is_lost(tmp_path):
    diary = Diary.begin(tmp_path / "status.json")
    diary.running()
    assert diary.status.state == "running"
    pid, started, where = diary.status.process.split()
    assert int(pid) == os.getpid()
    assert replace(diary.status, process=f"{pid} {int(started) - 1} {where}").state == "lost"
    assert replace(diary.status, process=f"{pid} {int(started) - 1} elsewhere").state == "running"


def test_a_damaged_file_says_nothing(tmp_path):
    (tmp_path / "status.json").write_text('{"starts": "x"}')
    assert Status.load(tmp_path / "status.json") == Status()


def test_what_was_asked_comes_back_without_the_options_of_sources(tmp_path):
    (tmp_path / "c.yaml").write_text(
        """
sites: {n1: {}, n2: {}}
links:
  default: {latency_ms: 20, mbps: 1}
  pairs: [{from: n1, to: n2, latency_ms: 5, mbps: 10}]
streams:
  s1:
    site: n1
    time: ts
    schema: {ts: timestamp, k: long}
    source: {format: kafka, options: {password: secret}}
    stats: {rate: 5, rates: {k: {1: 2.0, 2: 3.0}}}
"""
    )
    catalog = load(tmp_path / "c.yaml")
    asked = Asked(catalog, PlanOptions("simple", Objective.USAGE, "n2", {"width": "equal"}), once=True)
    asked.save(tmp_path / "asked.json")
    assert "secret" not in (tmp_path / "asked.json").read_text()
    found = Asked.load(tmp_path / "asked.json")
    assert (found.planning, found.once) == (asked.planning, True)
    assert found.catalog.links == catalog.links
    assert found.catalog.streams["s1"].stats == catalog.streams["s1"].stats
    assert found.catalog.streams["s1"].source.options == {}

"""The inbox on Spark: loops are drained, nothing comes twice, damage is said in a line."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from thalweg.errors import UserError
from thalweg.exchange.files import FileExchange, FileExchanges
from thalweg.exchange.links import Link
from thalweg.exchange.parcel_file import CONTROL, Edge
from thalweg.operators.spec import START
from thalweg.spark import inbox
from thalweg.spark.error_messages import in_our_words
from thalweg.spark.inbox import Files, Inbox, InboxOptions, InboxReader, Span
from thalweg.spark.program_files import Programs
from thalweg.spark.rows import NONE
from thalweg.wire.message import load
from thalweg.wire.parcel import Kind, Parcel

from .rally import AB, BA, ball, program


class Game:
    """A query that throws each ball back, over the edge it did not come by, until it has lost its n."""

    def __init__(self, spark, root, *, links=None, sites=("a", "b")):
        self.spark, self.root = spark, root
        self.programs = Programs(str(root / "programs"))
        self.programs.put(0, program())
        self.options = InboxOptions(root / "exchange", "game", sites, str(root / "programs"), links or {})
        self.seen = []
        self.crash_in = None
        spark.dataSource.register(Inbox)

    def log(self, edge):
        return FileExchange(self.options.root, "game", edge)

    def throw(self, edge, batch, n):
        self.log(edge).publish(batch, [ball(edge, n, self.log(edge).last() + 1)])

    def play(self):
        frame = self.spark.readStream.format(Inbox.name()).options(**self.options.texts()).load()
        writer = frame.writeStream.foreachBatch(self.catch).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.root / "checkpoint")).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def catch(self, frame, batch):
        rows = frame.collect()
        self.seen += [(batch, row) for row in rows]
        for row in rows:
            if row["n"]:
                self.throw(BA if row["channel"] == AB.name else AB, batch, row["n"] - 1)
        if batch == self.crash_in:
            raise RuntimeError("a crash")

    @property
    def hops(self):
        return [hop_of(row) for _, row in self.seen if row["channel"]]


def hop_of(row):
    """The edge, the number there, how many tuples came, and what they say."""
    said = load(bytes(row["data"])).column(START).to_pylist() if row["data"] else []
    assert (row["kind"], row["bound"], row["sender"]) == (Kind.TUPLES, NONE, 0)
    return (row["channel"], row["wall"], row["n"], tuple(said))


def rally(count):
    """All hops of a ball that starts from a to b."""
    edges = itertools.cycle((AB.name, BA.name))
    return [
        (next(edges), hop // 2 + 1, count - hop, (count - hop,) * (count - hop)) for hop in range(count + 1)
    ]


def test_all_hops_in_one_run_and_nothing_twice_after_it(spark, tmp_path):
    game = Game(spark, tmp_path)
    game.throw(AB, 0, 4)
    game.log(CONTROL).publish(0, [Parcel(0, Kind.END, 0, None, 5)])
    game.play()
    # Both sites hear that the streams have ended, and each ball goes to the site it was thrown to.
    control = sorted(tuple(row) for _, row in game.seen if row["channel"] == "")
    assert control == [(1, "", Kind.END, 0, NONE, 5, 0, b""), (2, "", Kind.END, 0, NONE, 5, 0, b"")]
    assert game.hops == rally(4)
    assert {(row["channel"], row["group"]) for _, row in game.seen} >= {("a-b", 2), ("b-a", 1)}
    # What Spark has committed is forgotten, but for the newest of each edge, and control.
    assert [p.name for p in (tmp_path / "exchange" / "a-b").iterdir()] == ["000000000003.parcels"]
    game.seen.clear()
    game.play()
    assert game.seen == []
    game.log(AB).publish(99, [Parcel(0, Kind.TUPLES, 0, 7, 3)])
    game.play()
    ((_, row),) = game.seen
    assert tuple(row) == (2, "a-b", Kind.TUPLES, 0, 7, 3, 0, b"")


def test_a_batch_that_failed_is_read_again_and_sends_nothing_twice(spark, tmp_path):
    game = Game(spark, tmp_path)
    game.throw(AB, 0, 3)
    game.crash_in = 1
    with pytest.raises(PySparkException, match="a crash"):
        game.play()
    game.crash_in = None
    game.play()
    counts = Counter(game.hops)
    assert list(counts) == rally(3)
    assert [n for _, n in sorted(counts.items(), key=lambda item: -item[0][2])] == [1, 2, 1, 1]
    assert {batch for batch, row in game.seen if row["n"] == 2} == {1}


@pytest.mark.long
def test_latency_is_waited_for(spark, tmp_path):
    link = Link(latency_s=0.4)
    game = Game(spark, tmp_path, links={AB.name: link, BA.name: link})
    game.throw(AB, 0, 2)
    begun = time.time()
    game.play()
    assert game.hops == rally(2)
    assert time.time() - begun > 3 * 0.4


@pytest.mark.parametrize(
    ("harm", "how"),
    [
        # The header is read where batches are planned, the body in a task.
        (lambda data: data[:20], "it is cut short"),
        (lambda data: data[:-1] + b"x", "its content does not match its checksum"),
    ],
    ids=["planning", "reading"],
)
def test_damage_is_said_in_a_line(spark, tmp_path, harm, how):
    game = Game(spark, tmp_path)
    game.throw(AB, 0, 5)
    path = game.log(AB).path(1)
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    with pytest.raises(PySparkException) as failed:
        game.play()
    told = in_our_words(failed.value, "q.sql")
    assert isinstance(told, UserError)
    assert str(told) == f"{path}: is damaged: {how}; start the run in a new folder"
    assert game.seen == []
    path.write_bytes(whole)  # nothing was consumed: what is mended is read
    game.play()
    assert game.hops == rally(5)


def test_parcels_are_read_by_the_programs_of_their_batches(spark, tmp_path):
    """The program of the batch that sent a parcel says what it is, that of the reader's where it goes."""
    game = Game(spark, tmp_path)
    later = program("1:", first=5)
    # From batch 1 on, there is another program, and the readers of the first one's parcels.
    game.programs.put(1, replace(later, routes=(*later.routes, *program().routes)))
    game.throw(AB, 0, 2)

    def catch(frame, batch):
        game.seen += [(batch, row) for row in frame.collect()]
        if batch == 0:
            game.log(BA).publish(0, [ball(BA, 3, 1)])
            game.log(AB).publish(1, [ball(AB, 4, 2, first=5)])

    game.catch = catch
    game.play()
    assert sorted((batch, row["group"], *hop_of(row)[:3]) for batch, row in game.seen) == [
        (0, 2, "a-b", 1, 2),
        (1, 1, "b-a", 1, 3),
        (1, 2, "1:a-b", 2, 4),
    ]


@pytest.mark.long
def test_killed_at_any_moment_every_hop_happens_once(tmp_path):
    hops, rng = 45, random.Random(int(os.environ.get("THALWEG_SEED", "1")))
    seen = tmp_path / "seen"
    seen.mkdir()
    FileExchange(tmp_path / "exchange", "rally", AB).publish(0, [ball(AB, hops, 1)])
    for victim in ["driver", "jvm", "planner", "worker", "driver", None]:
        with (tmp_path / "errors").open("w") as errors:
            run = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("rally.py"), tmp_path], stderr=errors
            )
        goal = len(list(seen.iterdir())) + rng.randrange(1, 8)
        while victim and run.poll() is None and len(list(seen.iterdir())) < goal:
            time.sleep(0.01)
        time.sleep(0.2 * rng.random())
        children = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
        if victim == "driver":
            run.kill()
        elif victim:
            mark = {"jvm": "java", "planner": "python_streaming_source_runner", "worker": "daemon"}[victim]
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    if mark in " ".join(child.cmdline()):
                        child.kill()
                        break
        run.wait(120)
        psutil.wait_procs(children, 30)
    assert run.returncode == 0, (tmp_path / "errors").read_text()
    found = [hop for path in sorted(seen.iterdir()) for hop in json.loads(path.read_text())]
    assert found == [[edge, seq, n] for edge, seq, n, _ in rally(hops)]
    assert list((tmp_path / "exchange" / "drafts").iterdir()) == []


# What can be seen without Spark


class Clock:
    def __init__(self):
        self.now, self.waits = 100.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.waits.append(seconds)
        self.now += seconds


def reader(root, *, sites=("b",), clock=None, **given):
    options = InboxOptions(root, "r", sites, str(root / "programs"), **given)
    assert InboxOptions.parse(options.texts()) == options
    clock = clock or Clock()
    return InboxReader(options, FileExchanges(root, "r", options.links), clock, clock.sleep)


def publish(root, edge, batch, size=10):
    return FileExchange(root, "r", edge, clock=lambda: 100.0).publish(
        batch, [Parcel(0, Kind.TUPLES, 1, None, 0, 0, bytes(size))]
    )


def test_only_what_leads_here(tmp_path):
    of = reader(tmp_path, sites=("b", "c"))
    everything = ReadAllAvailable()
    assert of.latestOffset(of.initialOffset(), everything) == {}
    for edge in (AB, BA, Edge("b", "b"), Edge("x", "c"), CONTROL):
        publish(tmp_path, edge, 1)
    (tmp_path / "drafts").mkdir()
    (tmp_path / "not an edge-").mkdir()
    assert of.latestOffset({}, everything) == {"a-b": 1, "b-b": 1, "control": 1, "x-c": 1}
    publish(tmp_path, Edge("y", "b"), 1)  # an edge that is new
    publish(tmp_path, AB, 2)
    end = of.latestOffset({"b-b": 1, "a-b": 1}, everything)
    assert json.dumps(end) == json.dumps({"a-b": 2, "b-b": 1, "control": 1, "x-c": 1, "y-b": 1})
    # The order in which Spark gives them back is kept from making a difference.
    assert json.dumps(of.latestOffset(dict(reversed(end.items())), everything)) == json.dumps(end)
    (tmp_path / "y-b" / "000000000001.parcels").unlink()
    (tmp_path / "y-b").rmdir()
    with pytest.raises(UserError, match=r"y-b/000000000001\.parcels: is missing"):
        of.latestOffset(end, everything)


def test_partitions_and_commits(tmp_path, monkeypatch):
    of = reader(tmp_path)
    Programs(str(tmp_path / "programs")).put(0, program())
    for batch in (1, 2, 3):
        FileExchange(tmp_path, "r", AB).publish(batch, [ball(AB, 1, batch)])
        FileExchange(tmp_path, "r", CONTROL).publish(batch, [Parcel(0, Kind.HURRY, 0, None, batch)])
    assert of.partitions({}, {}) == of.partitions({"a-b": 2}, {"a-b": 2}) == []
    (one,) = of.partitions({"a-b": 1}, {"a-b": 3, "control": 1})
    assert one == Files((Span("a-b", 1, 3), Span("control", 0, 1)))
    rows = [row for batch in of.read(one) for row in batch.to_pylist()]
    assert [(row["channel"], row["wall"], row["kind"]) for row in rows] == [
        ("a-b", 2, Kind.TUPLES),
        ("a-b", 3, Kind.TUPLES),
        ("", 1, Kind.HURRY),
        ("", 1, Kind.HURRY),
    ]
    monkeypatch.setattr(inbox, "_TASK", 1)  # what is worth a task has one of its own
    assert of.partitions({"a-b": 1}, {"a-b": 3, "control": 1}) == [
        Files((Span("a-b", 1, 3),)),
        Files((Span("control", 0, 1),)),
    ]
    of.commit({"a-b": 2, "b-a": 1, "control": 3})
    assert len(list((tmp_path / "a-b").iterdir())) == 3  # Spark's log may not be on the disk yet
    of.commit({"a-b": 3, "b-a": 1, "control": 3})
    assert sorted(p.name for p in (tmp_path / "a-b").iterdir()) == ["000000000003.parcels"]
    assert len(list((tmp_path / "control").iterdir())) == 3  # others may not have read it yet
    alone = reader(tmp_path, alone=True)
    alone.commit({"control": 2})
    alone.commit({"control": 3})
    assert sorted(p.name for p in (tmp_path / "control").iterdir()) == ["000000000003.parcels"]


def test_a_batch_is_bounded_and_no_edge_is_starved(tmp_path):
    size = publish(tmp_path, AB, 0, 1000).bytes
    for batch in range(1, 10):
        publish(tmp_path, AB, batch, 1000)
    publish(tmp_path, Edge("c", "b"), 1, 5000)
    of = reader(tmp_path, limit=6 * size)
    limit = of.getDefaultReadLimit()
    assert limit == ReadMaxBytes(6 * size)
    end = of.latestOffset({}, limit)
    assert end == {"a-b": 3, "c-b": 1}
    assert (end := of.latestOffset(end, limit)) == {"a-b": 9, "c-b": 1}
    assert (end := of.latestOffset(end, limit)) == {"a-b": 10, "c-b": 1}
    assert of.latestOffset(end, limit) == end
    assert of.latestOffset({}, ReadAllAvailable()) == end


def test_waiting_ends_when_something_arrives(tmp_path):
    clock = Clock()
    links = {"a-b": Link(latency_s=1.0), "c-b": Link(latency_s=0.25)}
    of = reader(tmp_path, clock=clock, links=links)
    publish(tmp_path, AB, 1)
    publish(tmp_path, Edge("c", "b"), 1)
    assert of.latestOffset({}, ReadAllAvailable()) == {}  # a run without an end is asked again anyway
    assert clock.waits == []
    of.prepareForTriggerAvailableNow()
    assert (end := of.latestOffset({}, ReadAllAvailable())) == {"c-b": 1}
    assert clock.now == pytest.approx(100.25, abs=0.01)
    assert (end := of.latestOffset(end, ReadAllAvailable())) == {"a-b": 1, "c-b": 1}
    assert clock.now == pytest.approx(101, abs=0.01)
    assert max(clock.waits) <= 0.1
    assert of.latestOffset(end, ReadAllAvailable()) == end


def test_what_is_told_an_inbox_is_checked(tmp_path):
    for wrong in ({"sites": ("../b",)}, {"sites": ("b",), "links": {"../a-b": Link()}}):
        with pytest.raises(ValueError, match="name"):
            InboxOptions(tmp_path, "r", programs="p", **wrong)


def test_a_program_that_is_to_take_over_can_be_replaced(tmp_path):
    """A batch that is repeated after a crash may decide otherwise than the first time."""
    programs = Programs(str(tmp_path / "programs"))
    programs.put(0, program())
    programs.put(3, program("1:"))
    assert [programs.at(n) for n in (2, 3, 9)] == [program(), program("1:"), program("1:")]
    programs.put(3, program("2:"))
    assert [programs.at(n) for n in (2, 3, 9)] == [program(), program("2:"), program("2:")]
    assert programs.firsts() == [0, 3]

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
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from thalweg.programs.parcel import Parcel
from thalweg.spark.exchange import FileExchange
from thalweg.spark.links import Link
from thalweg.spark.parcels import CONTROL, Edge

from thalweg.errors import UserError
from thalweg.spark.inbox import Inbox, InboxOptions, InboxReader
from thalweg.spark.reasons import in_our_words

AB, BA = Edge("a", "b"), Edge("b", "a")


def ball(count):
    """A parcel that is thrown back and forth so many times."""
    return [Parcel("ball", 0, count, None, 0, 8, bytes(count))]


class Game:
    """A query that throws each ball back, over the edge it did not come by, until it has lost its n."""

    def __init__(self, spark, root, *, links=None, sites=("a", "b"), inbox=Inbox):
        self.spark, self.root, self.inbox = spark, root, inbox
        self.options = InboxOptions(root / "exchange", "game", sites, links or {})
        self.seen = []
        self.crash_in = None
        spark.dataSource.register(inbox)

    def log(self, edge):
        return FileExchange(self.options.root, "game", edge)

    def play(self):
        frame = self.spark.readStream.format(self.inbox.name()).options(**self.options.texts()).load()
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
            if row["stream"] == "ball" and row["n"]:
                self.log(BA if row["edge"] == AB.name else AB).publish(batch, ball(row["n"] - 1))
        if batch == self.crash_in:
            raise RuntimeError("a crash")

    @property
    def hops(self):
        return [(row["edge"], row["seq"], row["n"], len(row["data"])) for _, row in self.seen]


def rally(count):
    """All hops of a ball that starts from a to b."""
    edges = itertools.cycle((AB.name, BA.name))
    return [(next(edges), hop // 2 + 1, count - hop, count - hop) for hop in range(count + 1)]


def test_all_hops_in_one_run_and_nothing_twice_after_it(spark, tmp_path):
    game = Game(spark, tmp_path)
    game.log(AB).publish(0, ball(4))
    game.log(CONTROL).publish(0, [Parcel("end", 4, 0, None, 5)])
    game.play()
    (control,) = (row for _, row in game.seen if row["edge"] == "control")
    assert tuple(control) == ("control", 1, "end", 4, 0, None, 5, 0, b"")
    assert [hop for hop in game.hops if hop[0] != "control"] == rally(4)
    # What Spark has committed is forgotten, but for the newest of each edge, and control.
    assert [p.name for p in (tmp_path / "exchange" / "a-b").iterdir()] == ["000000000003.parcels"]
    game.seen.clear()
    game.play()
    assert game.seen == []
    game.log(AB).publish(99, [Parcel("more", 0, 1, 7, 0, 0, b"x")])
    game.play()
    assert game.hops == [("a-b", 4, 1, 1)]


def test_a_batch_that_failed_is_read_again_and_sends_nothing_twice(spark, tmp_path):
    game = Game(spark, tmp_path)
    game.log(AB).publish(0, ball(3))
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
    game.log(AB).publish(0, ball(2))
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
    game.log(AB).publish(0, ball(5))
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


class Counts(Inbox):
    """An inbox with rows of its own: the batch that a task of Spark knows of, and a count."""

    @classmethod
    def name(cls):
        return "counts"

    def schema(self):
        return t.StructType([t.StructField("batch", t.StringType()), t.StructField("count", t.LongType())])

    def rows(self, parcels):
        batch = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        columns = {"batch": [batch], "count": [sum(1 for _ in parcels)]}
        yield pa.RecordBatch.from_pydict(columns)


def test_a_subclass_makes_rows_of_its_own(spark, tmp_path):
    class Counting(Game):
        def catch(self, frame, batch):
            self.seen += [(batch, row["batch"], row["count"]) for row in frame.collect()]
            if batch == 0:
                self.log(AB).publish(1, ball(1))

    game = Counting(spark, tmp_path, inbox=Counts)
    game.log(AB).publish(0, ball(1) * 3)
    game.log(BA).publish(0, ball(1) * 2)
    game.play()
    assert sorted(game.seen) == [(0, "0", 2), (0, "0", 3), (1, "1", 1)]


@pytest.mark.long
def test_killed_at_any_moment_every_hop_happens_once(tmp_path):
    hops, rng = 45, random.Random(int(os.environ.get("THALWEG_SEED", "1")))
    seen = tmp_path / "seen"
    seen.mkdir()
    FileExchange(tmp_path / "exchange", "rally", AB).publish(0, ball(hops))
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
    options = InboxOptions(root, "r", sites, **given)
    assert InboxOptions.parse(options.texts()) == options
    clock = clock or Clock()
    return InboxReader(Inbox(options.texts()), options, clock, clock.sleep)


def publish(root, edge, batch, size=10):
    return FileExchange(root, "r", edge, clock=lambda: 100.0).publish(
        batch, [Parcel("s", 0, 1, None, 0, 0, bytes(size))]
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


def test_partitions_and_commits(tmp_path):
    of = reader(tmp_path)
    for batch in (1, 2, 3):
        publish(tmp_path, AB, batch)
        publish(tmp_path, CONTROL, batch)
    assert of.partitions({}, {}) == of.partitions({"a-b": 2}, {"a-b": 2}) == []
    (one, two) = of.partitions({"a-b": 1}, {"a-b": 3, "control": 1})
    rows = [row for files in (one, two) for batch in of.read(files) for row in batch.to_pylist()]
    assert [(row["edge"], row["seq"]) for row in rows] == [("a-b", 2), ("a-b", 3), ("control", 1)]
    of.commit({"a-b": 2, "b-a": 1, "control": 3})
    assert sorted(p.name for p in (tmp_path / "a-b").iterdir()) == ["000000000003.parcels"]
    assert len(list((tmp_path / "control").iterdir())) == 3  # others may not have read it yet


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
            InboxOptions(tmp_path, "r", **wrong)

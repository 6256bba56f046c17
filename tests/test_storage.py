"""Files in an object store, beside the same in a folder: both do the same, or say why not."""

from __future__ import annotations

import pickle
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as t

from tests.exchange.logs import AB, PARCELS, by_all, exchange, filled, one, told
from thalweg import storage
from thalweg.cli.main import invoke
from thalweg.compile.query_fields import field_of
from thalweg.errors import RunError
from thalweg.exchange.disk import create, damaged, ensure
from thalweg.exchange.drafts import Drafts
from thalweg.exchange.files import FileExchanges
from thalweg.exchange.links import Link
from thalweg.exchange.parcel_file import CONTROL
from thalweg.files import Lines, copied, move, remove_all, whole, write_text
from thalweg.kernel.spill_files import SpillFolder
from thalweg.live.series import Follower, Point, Series, files
from thalweg.spark.late import LateFiles
from thalweg.spark.result_files import ResultFile
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.storage import RemoteFile, RemotePath, location


@pytest.fixture(params=["disk", "store"])
def place(request, tmp_path):
    """An empty place for files, on a disk or in an object store."""
    if request.param == "disk":
        return tmp_path
    return request.getfixturevalue("bucket") / uuid.uuid4().hex


@pytest.fixture
def remote(bucket):
    return bucket / uuid.uuid4().hex


def names(place):
    return sorted(one.name for one in place.iterdir())


@pytest.mark.parametrize(
    ("text", "is_at"),
    [
        ("out", Path("out")),
        ("/data/out", Path("/data/out")),
        ("c:out", Path("c:out")),
        ("file:/data/out", Path("/data/out")),
        ("FILE:///data/my%20out", Path("/data/my out")),
        ("s3a://b/out", RemotePath("s3a", "b/out")),
        ("S3://b/a//out/", RemotePath("s3a", "b/a/out")),
    ],
)
def test_locations_by_their_scheme(text, is_at):
    assert location(text) == is_at
    assert location(location(text)) == is_at


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gs://b/out", "paths with gs:// can't be used yet; give a folder, file:///"),
        ("hdfs://host:9000/out", "paths with hdfs:// can't be used yet"),
        ("ftp://b/out", "paths with ftp:// can't be used; give a folder, file:///"),
        ("s3a:///", "names no bucket; such as s3a://BUCKET/run"),
        ("s3a://b/../c", "has `..` in it"),
    ],
)
def test_other_schemes_are_refused_in_a_line(text, message):
    assert message in told(location, text)


def test_without_its_packages_it_is_said_which(monkeypatch, remote):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.setattr(storage, "_opened", storage._opened.__wrapped__)
    assert "pip install 'thalweg[s3]'" in told(remote.exists)


def test_files_and_what_is_below(place):
    ensure(place / "a")
    write_text(place / "a" / "000000001-0000.x", "one")
    write_text(place / "a" / "000000001-0000.x", "two")
    ensure(place / "b")
    write_text(place / "b" / "000000001-0001.x", "three")
    write_text(place / "b" / "000000002-0000.x", "")
    assert (place / "a" / "000000001-0000.x").read_bytes() == b"two"
    assert (place / "b" / "000000002-0000.x").read_bytes() == b""
    assert names(place) == ["a", "b"]
    assert ((place / "a").is_dir(), (place / "c").is_dir(), (place / "c").exists()) == (True, False, False)
    first = sorted(
        str(f.relative_to(place) if isinstance(f, Path) else f) for f in place.glob("*/000000001-*")
    )
    assert [f.removeprefix(f"{place}/") for f in first] == ["a/000000001-0000.x", "b/000000001-0001.x"]
    assert list(place.glob("c/*")) == list(place.glob("a/2*")) == []
    (place / "a" / "000000001-0000.x").unlink(missing_ok=True)
    (place / "a" / "000000001-0000.x").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (place / "a" / "000000001-0000.x").read_bytes()


def test_the_first_writer_wins(place):
    ensure(place)
    assert create(place / "one", b"first")
    assert not create(place / "one", b"second")
    assert (place / "one").read_bytes() == b"first"
    assert names(place) == ["one"]


def test_a_file_appears_whole_or_not_at_all(place):
    ensure(place)
    table = pa.table({"n": [1, 2]})
    with whole(place / "x.parquet") as draft:
        pq.write_table(table, draft)
        assert not (place / "x.parquet").exists()
    assert pq.read_table(pa.BufferReader((place / "x.parquet").read_bytes())) == table
    with pytest.raises(RuntimeError), whole(place / "z") as draft:
        draft.write_bytes(b"x")
        raise RuntimeError
    assert names(place) == ["x.parquet"]


def test_a_long_file_is_read_in_two_parts(remote, monkeypatch):
    monkeypatch.setattr(RemoteFile, "_FIRST", 4)
    remote.write_bytes(bytes(range(10)))
    file = remote.open()
    assert (file.size, file.read(3), file.read(0), file.read(6), file.read(1)) == (
        10,
        bytes(range(3)),
        b"",
        bytes(range(3, 9)),
        b"\x09",
    )


def test_an_exchange(place):
    log = filled(place, 3)
    assert log.publish(40, PARCELS).seq == 4
    assert exchange(place, now=99.0).publish(40, one(50)) == log.sent(4)
    assert by_all(exchange(place).read(4)) == by_all(PARCELS)
    assert "is of batch 40; batch 30 can't come after it" in told(log.publish, 30, one(1))
    assert (log.ready(0, 0.0), log.ready(3, 0.0)) == (4, 4)
    log.forget(2)
    assert names(place / "a-b") == ["000000000003.parcels", "000000000004.parcels"]
    assert "000000000002.parcels: is missing" in told(exchange(place).ready, 1, 0.0)
    slow = exchange(place, link=Link(latency_s=5.0))
    assert (slow.ready(2, 4.0), slow.next_at(2), slow.ready(2, 5.0)) == (2, 5.0, 4)
    all_edges = FileExchanges(place, "r")
    all_edges.over(CONTROL).publish(0, one(1))
    assert all_edges.edges() == [AB, CONTROL]
    log.path(4).write_bytes(log.path(4).read_bytes()[:-1])
    assert "is damaged: it is cut short" in told(exchange(place).read, 4)
    log.path(4).write_bytes(b"")
    assert "is damaged: it is empty" in told(exchange(place).read, 4)


def test_two_writers_of_an_exchange(place, monkeypatch):
    """The other one publishes between the moment when this one looks and the moment when it writes."""
    log, other = exchange(place), exchange(place)
    look = log.last

    def last():
        seen = look()
        other.publish(1, one(1))
        return seen

    monkeypatch.setattr(log, "last", last)
    assert log.publish(2, one(2)).seq == 2
    assert [exchange(place).read(n) for n in (1, 2)] == [one(1), one(2)]


def test_drafts(place):
    drafts = Drafts(place, "r")
    listed = [drafts.write(AB, 4, f"task-{n}", PARCELS[n::2]) for n in range(2)]
    assert by_all(drafts.gather(listed)) == by_all(PARCELS)
    kept = drafts.write(AB, 5, "task", one(1))
    drafts.clear(4)
    assert names(place / "drafts") == [kept]


def test_spilled_tuples(place):
    folder = SpillFolder(place / "spill")
    batch = pa.record_batch({"n": pa.array([1, 2])})
    file = folder.write("x.arrow", batch)
    assert folder.read(file) == batch
    assert folder.names() == {"x.arrow"}
    folder.remove("x.arrow")
    assert folder.names() == set()


def test_late_tuples(place):
    """As a worker writes them; a repeat of the batch takes the place of its first attempt."""
    kept = {"a": t.StructType([t.StructField("n", t.LongType()), t.StructField("word", t.StringType())])}
    late = pickle.loads(pickle.dumps(LateFiles(place / "late", kept)))
    for words in (["x", "y"], ["x", "z"]):
        fields = {field_of("n"): pa.array([1, 2]), field_of("word"): pa.array(words)}
        late.write("a", pa.record_batch(fields), 7, 0)
    (file,) = (place / "late" / "a").glob("*.parquet")
    assert file.name == "000000000-0007-0000.parquet"
    found = pq.read_table(pa.BufferReader(file.read_bytes())).to_pylist()
    assert found == [{"n": 1, "word": "x"}, {"n": 2, "word": "z"}]


def test_what_the_store_refuses_is_said(bucket):
    assert f"{bucket}/f: is damaged: x" in str(damaged(bucket / "f", "x"))
    missing = location("s3a://no-such-bucket/run")
    assert "run/a-b/000000000001.parcels: is missing" in told(exchange(missing).publish, 1, one(1))
    assert not missing.exists()


def test_a_store_that_can_not_be_reached_is_told_in_a_line(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(storage, "_opened", storage._opened.__wrapped__)
    with pytest.raises(RunError, match=r"s3a://bucket/run/a-b: can't be used: .*127\.0\.0\.1:9"):
        exchange(location("s3a://bucket/run")).publish(1, one(1))


@pytest.mark.parametrize("command", [("history",), ("verify", "q.sql", "--catalog", "c.yaml", "--out")])
def test_a_run_can_not_be_in_any_store(command, capsys):
    assert invoke([*command, "hdfs://b/run"]) == 2
    assert capsys.readouterr().err == (
        "thalweg: hdfs://b/run: paths with hdfs:// can't be used yet; "
        "give a folder, file:///... or s3a://BUCKET/...\n"
    )


def test_what_a_store_has_moves_and_goes(remote):
    (remote / "draft" / "x").write_bytes(b"1")
    (remote / "r" / "x").write_bytes(b"0")
    move(remote / "draft" / "x", remote / "r" / "x")
    assert ((remote / "r" / "x").read_text(), names(remote)) == ("1", ["r"])
    (remote / "r" / "deep" / "y").write_bytes(b"2")
    (remote / "rest").write_bytes(b"3")
    with copied(remote / "r") as folder:
        assert {f.name: f.read_text() for f in folder.iterdir()} == {"x": "1"}
    with copied(remote, "r/deep", "none") as folder:
        assert [str(f.relative_to(folder)) for f in sorted(folder.rglob("*"))] == [
            "none",
            "r",
            "r/deep",
            "r/deep/y",
        ]
    remove_all(remote / "r")
    remove_all(remote / "r")
    assert names(remote) == ["rest"]


def test_it_is_replaced_only_as_it_was_last_seen(remote):
    assert not remote.replace_if("none", b"0")
    remote.write_bytes(b"1")
    seen = remote.stamp()
    assert remote.replace_if(seen, b"2")
    assert not remote.replace_if(seen, b"3")
    assert remote.read_bytes() == b"2"


def test_lines_are_appended(place, monkeypatch):
    ensure(place)
    file = Lines(place / "f")
    for line in ("a\n", "b\n"):
        file.append(line)
    file.close()
    again = Lines(place / "f")
    again.append("c\n")
    again.close()
    assert (place / "f").read_text() == "a\nb\nc\n"
    again.hand_over(place / "g")
    again.append("d\n")
    again.close()
    assert ((place / "f").read_text(), (place / "g").read_text()) == ("d\n", "a\nb\nc\n")
    again.rewrite("e\n")
    again.append("f\n")
    again.close()
    assert (place / "f").read_text() == "e\nf\n"


def test_points_of_a_run(place):
    """As a run writes them and its page reads them."""
    ensure(place)
    made, follower = Series(place), Follower(files(place)[0], 10)
    assert follower.read() == []
    for n in range(3):
        made.add(Point(n, float(n), 0.5))
    made.close()
    assert [p.batch for p in follower.read()] == [p.batch for p in follower.read()] == [0, 1, 2]
    again = Series(place)
    assert again.before(2) == Point(1, 1.0, 0.5)
    again.add(Point(2, 9.0, 0.5))
    again.close()
    assert [p.at for p in follower.read()] == [0.0, 1.0, 9.0]


def test_a_result_file_is_there_when_it_is_closed(place):
    ensure(place)
    batch = pa.record_batch({"n": pa.array([1, 2])})
    file = ResultFile(str(place), batch.schema)
    file.add(batch)
    assert isinstance(place, Path) or not names(place)
    file.close()
    ensure(place / "results")
    sink = ParquetSink(place / "results", place)
    sink.publish([(file.name, 2)], 3)
    assert names(place) == ["results"]
    assert names(place / "results") == ["000000003-0000.parquet"]
    found = pq.read_table(pa.BufferReader((place / "results" / "000000003-0000.parquet").read_bytes()))
    assert found.to_pylist() == [{"n": 1}, {"n": 2}]
    sink.clear(3)
    assert names(place / "results") == []

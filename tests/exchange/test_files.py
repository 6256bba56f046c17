"""Exchanges in files: each batch once, in order, and never anything that was not sent."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from tests.exchange.logs import AB, PARCELS, by_all, exchange, filled, one, told
from thalweg.errors import RunError
from thalweg.exchange.files import FileExchange, FileExchanges
from thalweg.exchange.links import Link
from thalweg.exchange.parcel_file import CONTROL, Edge
from thalweg.wire.parcel import Kind, Parcel


def test_what_is_published_is_read(tmp_path):
    log = exchange(tmp_path)
    assert (log.ready(0, 0.0), log.next_at(0)) == (0, None)
    sent = log.publish(7, PARCELS)
    assert (sent.seq, sent.batch, sent.tuples, sent.payload_bytes) == (1, 7, 5, 56)
    assert sent.bytes == (tmp_path / "a-b" / "000000000001.parcels").stat().st_size
    assert log.sent(1) == sent
    assert (log.ready(0, 0.0), log.ready(1, 0.0)) == (1, 1)
    assert by_all(exchange(tmp_path).read(1)) == by_all(PARCELS)


def test_integers_of_numpy_are_integers(tmp_path):
    log = exchange(tmp_path)
    theirs = Parcel(np.int16(7), np.int32(1), np.int64(2), np.int64(3), np.int64(4), np.int64(5), b"x")
    assert type(log.publish(1, [theirs]).tuples) is int
    assert log.read(1) == [Parcel(7, Kind.ENDS, 2, 3, 4, 5, b"x")]


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    log = exchange(tmp_path)
    assert "a-b: its file system has no hard links" in told(log.publish, 1, one(1))
    assert list((tmp_path / "a-b").iterdir()) == []


def test_a_full_disk(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "a-b").mkdir()
    log = exchange(tmp_path)
    with pytest.raises(RunError, match=r"000000000001.parcels: can't be used: No space left .*make room"):
        log.publish(1, one(1))
    assert list((tmp_path / "a-b").iterdir()) == []


def test_numbers_follow_each_other_whatever_the_batches(tmp_path):
    log = exchange(tmp_path)
    assert [log.publish(batch, one(batch)).seq for batch in (0, 1, 5, 90)] == [1, 2, 3, 4]
    assert [log.sent(seq).batch for seq in (1, 2, 3, 4)] == [0, 1, 5, 90]
    assert log.publish(91, []).tuples == 0
    assert log.read(5) == []


def test_a_repeat_changes_nothing(tmp_path):
    log = exchange(tmp_path)
    log.publish(1, one(1))
    sent = log.publish(2, PARCELS)
    before = log.path(2).read_bytes()
    assert exchange(tmp_path, now=99.0).publish(2, one(50)) == sent
    assert log.path(2).read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "a-b").iterdir()) == [log.path(1).name, log.path(2).name]
    assert "is of batch 2; batch 1 can't come after it" in told(log.publish, 1, one(1))


def test_the_order_of_parcels_does_not_matter(tmp_path):
    written = set()
    for n in range(10):
        log = exchange(tmp_path / str(n))
        log.publish(1, random.Random(n).sample(PARCELS, len(PARCELS)))
        written.add(log.path(1).read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(
    "parcels", [PARCELS, [], [Parcel(9, Kind.END, 0, None, 0)]], ids=["many", "none", "bare"]
)
def test_any_flipped_bit_and_any_cut_is_noticed(tmp_path, parcels):
    log = exchange(tmp_path)
    log.publish(3, parcels)
    path = log.path(1)
    whole = path.read_bytes()
    rng = random.Random(0)
    for at in range(len(whole)):
        for flip in (1 << rng.randrange(8), rng.randrange(1, 256)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            assert told(log.read, 1).startswith(f"{path}: is ")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert "is damaged" in told(log.read, 1)
        assert "is damaged" in told(log.sent, 1)
    path.write_bytes(whole + b"x")
    assert "longer than it says" in told(log.sent, 1)
    path.write_bytes(whole)
    assert by_all(log.read(1)) == by_all(parcels)


def test_a_damaged_file_stops_the_writer_too(tmp_path):
    log = filled(tmp_path, 1)
    log.path(1).write_bytes(b"")
    assert "is damaged: it is empty" in told(log.publish, 20, one(1))


def test_files_from_elsewhere_are_refused(tmp_path):
    ours = filled(tmp_path / "ours", 2)
    other_edge, other_run = filled(tmp_path / "x", 2, edge=Edge("b", "a")), filled(tmp_path, 2, run="q")
    for other, belongs in (
        (other_edge, "belongs to another edge, not to a-b"),
        (other_run, "belongs to another run, not to 'r'"),
    ):
        ours.path(2).write_bytes(other.path(2).read_bytes())
        assert belongs in told(ours.read, 2)
        assert belongs in told(ours.publish, 30, one(1))
    ours.path(2).write_bytes(ours.path(1).read_bytes())
    assert "is file 1 of a-b, not 2" in told(ours.read, 2)


def test_links_pipes_and_folders_are_no_files(tmp_path):
    log = filled(tmp_path, 1)
    kept = log.path(1).rename(tmp_path / "kept")
    log.path(1).symlink_to(kept)
    assert "is a symbolic link" in told(log.read, 1)
    assert "is a symbolic link" in told(log.publish, 99, one(1))
    log.path(1).unlink()
    os.mkfifo(log.path(1))
    assert "is not a file" in told(log.read, 1)
    log.path(1).unlink()
    log.path(1).mkdir()
    assert "is not a file" in told(log.read, 1)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    filled(tmp_path / "real", 1)
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a-b").symlink_to(tmp_path / "real" / "a-b")
    log = exchange(tmp_path / "shown")
    assert "a-b: is a symbolic link" in told(log.publish, 99, one(1))
    assert "a-b: is a symbolic link" in told(log.ready, 0, 0.0)


def test_gaps_are_noticed(tmp_path):
    log = filled(tmp_path, 4)
    log.path(3).unlink()
    assert told(log.ready, 0, 0.0).startswith(f"{log.path(3)}: is missing")
    assert told(log.next_at, 2).startswith(f"{log.path(3)}: is missing")
    assert told(log.read, 3).startswith(f"{log.path(3)}: is missing")
    assert log.ready(3, 0.0) == 4
    assert "000000000009.parcels: is missing" in told(log.ready, 9, 0.0)
    for path in (tmp_path / "a-b").iterdir():
        path.unlink()
    assert "000000000004.parcels: is missing" in told(log.ready, 4, 0.0)


def test_forgetting_keeps_the_newest(tmp_path):
    log = filled(tmp_path, 4)
    log.forget(2)
    assert (log.ready(2, 0.0), log.sent(3).batch) == (4, 30)
    assert "is missing" in told(log.read, 2)
    assert "is missing" in told(log.ready, 0, 0.0)
    for _ in range(2):
        log.forget(100)
    assert [p.name for p in (tmp_path / "a-b").iterdir()] == [log.path(4).name]
    assert log.ready(4, 0.0) == 4
    assert log.publish(40, one(9)).seq == 4
    assert log.publish(50, one(9)).seq == 5
    exchange(tmp_path, Edge("no", "thing")).forget(5)


def test_loops_and_control_are_exchanges_as_others(tmp_path):
    for edge, folder in ((Edge("a", "a"), "a-a"), (CONTROL, "control")):
        log = filled(tmp_path, 2, edge=edge)
        assert log.path(2).parent == tmp_path / folder
        assert log.read(2) == one(2)


def _publish(root, batches, barrier):
    log = FileExchange(root, "r", AB)
    for batch in batches:
        barrier.wait(30)
        log.publish(batch, one(batch))


def test_two_writers_at_once_write_each_batch_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, batches = context.Barrier(2), range(1, 41)
    writers = [context.Process(target=_publish, args=(tmp_path, batches, barrier)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    log = exchange(tmp_path)
    assert log.ready(0, 0.0) == len(batches)
    for batch in batches:
        assert (log.sent(batch).batch, log.read(batch)) == (batch, one(batch))
    assert len(list((tmp_path / "a-b").iterdir())) == len(batches)


def test_what_killed_writers_left_goes_away(tmp_path):
    log = filled(tmp_path, 1)
    left = [tmp_path / "a-b" / f".{seq:012d}.{'0' * 32}.draft" for seq in (1, 2, 3)]
    for path in left:
        path.write_bytes(b"half")
    assert log.ready(0, 0.0) == 1
    log.publish(20, one(2))
    assert [path.exists() for path in left] == [False, False, True]


def test_a_writer_whose_draft_was_swept_away_has_lost(tmp_path, monkeypatch):
    log, other, link = exchange(tmp_path), exchange(tmp_path), os.link

    def late(*arguments, **options):
        monkeypatch.setattr(os, "link", link)
        other.publish(1, one(1))
        other.publish(2, one(2))
        other.forget(1)
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", late)
    assert "can't come after it" in told(log.publish, 1, one(1))
    assert other.ready(1, 0.0) == 2


def test_exchanges_of_a_run(tmp_path):
    link = Link(latency_s=1.0)
    all_of = FileExchanges(tmp_path, "r", {"a-b": link}, clock=lambda: 5.0)
    assert all_of.edges() == []
    assert all_of.over(AB) is all_of.over(Edge("a", "b"))
    for edge in (AB, Edge("a", "a"), CONTROL):
        all_of.over(edge).publish(1, one(1))
    (tmp_path / "drafts").mkdir()
    assert all_of.edges() == [Edge("a", "a"), AB, CONTROL]
    assert (all_of.over(AB).next_at(0), all_of.over(CONTROL).next_at(0)) == (6.0, 5.0)


def test_exchanges_are_loaded_fast():
    """Spark starts processes that only plan batches, again and again."""
    code = (
        "import sys, thalweg.exchange.files, thalweg.exchange.drafts; "
        "print(sorted({'numpy', 'pyarrow', 'numba', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

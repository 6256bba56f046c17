"""Exchanges in files: each batch once, in order, and never anything that was not sent."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import UserError
from thalweg.programs.parcel import Parcel
from thalweg.spark.drafts import Drafts
from thalweg.spark.exchange import FileExchange
from thalweg.spark.links import Link, links_of, links_text
from thalweg.spark.parcels import CONTROL, Edge, Label, encode, read_parcels

PARCELS = [
    Parcel("flights", 0, 2, 17, 1000, 24, b"two tuples"),
    Parcel("flights", 0, 2, None, 1000, 24, b"two others"),
    Parcel("flights", 1, 0, -5, 1001),
    Parcel("weather", 0, 1, 17, 999, 8, bytes(range(256))),
]
AB = Edge("a", "b")


def exchange(root, edge=AB, *, run="r", link=None, now=0.0):
    return FileExchange(root, run, edge, link, clock=lambda: now)


def one(n):
    return [Parcel("s", 0, n, n, 0, 8 * n, bytes(n))]


def filled(root, count, **options):
    log = exchange(root, **options)
    for n in range(1, count + 1):
        log.publish(10 * n, one(n))
    return log


def told(call, *arguments):
    """The one line that a user is told."""
    with pytest.raises(UserError) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def by_all(parcels):
    return sorted(parcels, key=repr)


def test_what_is_published_is_read(tmp_path):
    log = exchange(tmp_path)
    assert (log.ready(0, 0.0), log.next_at(0)) == (0, None)
    sent = log.publish(7, PARCELS)
    assert (sent.seq, sent.batch, sent.tuples, sent.payload_bytes) == (1, 7, 5, 56)
    assert sent.bytes == (tmp_path / "a-b" / "000000000001.parcels").stat().st_size
    assert log.sent(1) == sent
    assert (log.ready(0, 0.0), log.ready(1, 0.0)) == (1, 1)
    assert by_all(exchange(tmp_path).read(1)) == by_all(PARCELS)


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.lists(
        st.builds(
            Parcel,
            st.text(),
            st.integers(0, 9),
            st.integers(0, 1 << 40),
            st.none() | NUMBERS,
            NUMBERS,
            st.integers(0, 1 << 40),
            st.binary(),
        )
    ),
    st.randoms(),
)
def test_any_parcels_go_and_come(parcels, rng):
    label = Label("r", AB, 1, 1)
    whole = encode(label, 1.5, parcels)
    assert encode(label, 1.5, rng.sample(parcels, len(parcels))) == whole
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(whole)
        header, found = read_parcels(path, "r", AB, 1)
    assert (header.label, header.sent_at, header.size) == (label, 1.5, len(whole))
    assert by_all(found) == by_all(parcels)


def test_integers_of_numpy_are_integers(tmp_path):
    log = exchange(tmp_path)
    theirs = Parcel("s", np.int32(1), np.int64(2), np.int64(3), np.int64(4), np.int64(5), b"x")
    assert type(log.publish(1, [theirs]).tuples) is int
    assert log.read(1) == [Parcel("s", 1, 2, 3, 4, 5, b"x")]


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
    assert "000000000001.parcels: can't be used: No space left" in told(log.publish, 1, one(1))
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


@pytest.mark.parametrize("parcels", [PARCELS, [], [Parcel("s", 3, 0, None, 0)]], ids=["many", "none", "bare"])
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


def rewritten(path, change, version=1):
    """The same file with another header, and checksums that are right."""
    data = path.read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = json.loads(data[16 : 16 + length])
    change(header)
    text = json.dumps(header).encode()
    front = data[:4] + version.to_bytes(4, "little") + len(text).to_bytes(4, "little")
    total = zlib.crc32(front + text).to_bytes(4, "little")
    path.write_bytes(front + total + text + data[16 + length :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(run="other"), "belongs to another run ('other', not 'r')"),
        (lambda h: h.update({"from": "x"}), "belongs to x-b, not to a-b"),
        (lambda h: h.update({"from": "../x"}), "its header can't be read"),
        (lambda h: h.update(seq=2), "is file 2 of a-b, not 1"),
        (lambda h: h.pop("batch"), "its header can't be read"),
        (lambda h: h["parcels"].pop(), "its header can't be read"),
        (lambda h: h["parcels"].append(["s", 0, 0, None, 0, 0, -5]), "its header can't be read"),
        (lambda h: h.update(body=3), "its header can't be read"),
    ],
)
def test_headers_that_lie(tmp_path, change, message):
    log = exchange(tmp_path)
    log.publish(1, PARCELS)
    rewritten(log.path(1), lambda h: None)
    assert by_all(log.read(1)) == by_all(PARCELS)
    rewritten(log.path(1), change)
    assert message in told(log.read, 1)
    assert str(log.path(1)) in told(log.sent, 1)


def test_newer_versions_are_refused(tmp_path):
    log = filled(tmp_path, 1)
    rewritten(log.path(1), lambda h: None, version=2)
    assert "is of version 2, and this thalweg reads up to 1; update thalweg" in told(log.read, 1)


def test_files_from_elsewhere_are_refused(tmp_path):
    ours = filled(tmp_path / "ours", 2)
    other_edge, other_run = filled(tmp_path / "x", 2, edge=Edge("b", "a")), filled(tmp_path, 2, run="q")
    for other in (other_edge, other_run):
        ours.path(2).write_bytes(other.path(2).read_bytes())
        assert "belongs to" in told(ours.read, 2)
        assert "belongs to" in told(ours.publish, 30, one(1))
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


@pytest.mark.parametrize("name", ["", "..", "a-b", "a/b", "/a", "a.b", "1a", "ä", "a\n", " a", "a\0"])
def test_only_names_of_sites(name):
    for ends in ((name, "a"), ("a", name)):
        with pytest.raises(ValueError, match="names of sites"):
            Edge(*ends)
    with pytest.raises(ValueError, match="name"):
        Edge.named(f"{name}-")


def test_edges_and_their_names():
    for edge in (AB, Edge("a", "a"), Edge("control", "control"), Edge("_1", "Z"), CONTROL):
        assert Edge.named(edge.name) == edge
    assert CONTROL.name == "control"
    for name in ("", "-", "a", "drafts", "a-b-c", "-a", "a-", "../a-b"):
        with pytest.raises(ValueError, match="name"):
            Edge.named(name)


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


# Links. A file of `one(n)` has some 200 bytes; what counts here is when it comes.


def arrivals(root, link, sent_at, after=0):
    log = exchange(root, link=link)
    for n, moment in enumerate(sent_at, 1):
        log.clock = lambda moment=moment: moment
        log.publish(n, one(1))
    found = []
    for seq in range(after, len(sent_at)):
        moment = log.next_at(seq)
        assert log.ready(seq, moment) > seq
        assert log.ready(seq, moment - 1e-6) == seq
        found.append(moment)
    assert log.next_at(len(sent_at)) is None
    return found


def test_without_a_link_no_clock_is_asked(tmp_path):
    log = exchange(tmp_path, now=1e9)
    log.publish(1, one(1))
    assert log.ready(0, 0.0) == 1


def test_latency(tmp_path):
    assert arrivals(tmp_path, Link(latency_s=0.5), [10.0, 10.1, 20.0]) == [10.5, 10.6, 20.5]


def test_bandwidth_makes_files_queue(tmp_path):
    log = exchange(tmp_path / "size")
    size = log.publish(1, one(1)).bytes
    found = arrivals(tmp_path, Link(latency_s=1.0, bytes_per_s=size), [10.0, 10.0, 10.5, 30.0])
    # Clocks are written into the header, so sizes differ by the digits of the moment.
    assert found == pytest.approx([12.0, 13.0, 14.0, 32.0], abs=0.1)


def test_jitter_is_always_the_same_and_keeps_the_order(tmp_path):
    link, sent_at = Link(latency_s=1.0, jitter_s=2.0), [10 + 0.1 * n for n in range(20)]
    found = arrivals(tmp_path / "x", link, sent_at)
    assert found == arrivals(tmp_path / "y", link, sent_at)
    assert found == sorted(found)
    assert all(moment + 1 <= there <= moment + 3 + 1e-9 for moment, there in zip(sent_at, found, strict=True))
    assert len(set(found)) > 3
    other = exchange(tmp_path / "x", Edge("b", "a"), link=link, now=10.0)
    other.publish(1, one(1))
    assert other.next_at(0) != found[0]


def test_nothing_arrives_during_a_cut(tmp_path):
    link = Link(latency_s=1.0, cuts=((20.0, 30.0), (10.0, 20.0), (40.0, 41.0)))
    assert arrivals(tmp_path, link, [8.0, 9.0, 15.0, 28.9, 29.0, 39.5]) == [9.0, 30.0, 30.0, 30.0, 30.0, 41.0]


def test_what_was_forgotten_does_not_change_when_the_rest_comes(tmp_path):
    link = Link(latency_s=1.0, bytes_per_s=10.0, jitter_s=1.0)
    first = arrivals(tmp_path, link, [10.0] * 5)
    log = exchange(tmp_path, link=link)
    found = []
    for seq in range(5):
        found.append(log.next_at(seq))
        log.forget(seq)
    assert found == first


@pytest.mark.parametrize(
    "fields",
    [
        {"latency_s": -1.0},
        {"jitter_s": -0.1},
        {"bytes_per_s": 0.0},
        {"latency_s": float("inf")},
        {"latency_s": float("nan")},
        {"cuts": ((2.0, 2.0),)},
        {"cuts": ((2.0, float("inf")),)},
    ],
)
def test_links_that_can_not_be(fields):
    with pytest.raises(ValueError, match=r"link|cut"):
        Link(**fields)


def test_links_as_text():
    links = {"a-b": Link(0.5, 1e6, 0.1, ((1.0, 2.0), (3.0, 4.0))), "b-a": Link()}
    assert links_of(links_text(links)) == links
    with pytest.raises(ValueError, match="links have no latency; they have bytes_per_s"):
        links_of('{"a-b": {"latency": 1}}')


# Drafts


def test_drafts_are_gathered_and_published(tmp_path):
    drafts = Drafts(tmp_path, "r")
    names = [drafts.write(AB, 4, f"task-{n}", PARCELS[n::2]) for n in range(2)]
    assert by_all(drafts.gather(names)) == by_all(PARCELS)
    assert drafts.gather([]) == []
    log = exchange(tmp_path)
    log.publish(4, drafts.gather(names))
    drafts.clear(4)
    assert by_all(log.read(1)) == by_all(PARCELS)
    assert list((tmp_path / "drafts").iterdir()) == []
    assert "is missing" in told(drafts.gather, names)


def test_who_still_writes_after_being_given_up_does_no_harm(tmp_path):
    drafts = Drafts(tmp_path, "r")
    drafts.write(AB, 4, "task-0", one(9))
    name = drafts.write(AB, 4, "task-0", one(1))
    drafts.write(AB, 4, "task-0", one(8))
    assert drafts.gather([name]) == one(1)
    drafts.clear(4)
    drafts.write(AB, 4, "task-0", one(7))
    kept = drafts.write(AB, 6, "task-0", one(2))
    drafts.clear(5)
    assert [path.name for path in (tmp_path / "drafts").iterdir()] == [kept]
    Drafts(tmp_path / "none", "r").clear(1)


def test_drafts_are_checked_as_files_of_exchanges_are(tmp_path):
    drafts = Drafts(tmp_path, "r")
    name = drafts.write(AB, 4, "t", PARCELS)
    path = tmp_path / "drafts" / name
    assert "belongs to another run" in told(Drafts(tmp_path, "q").gather, [name])
    other = path.with_name(name.replace("a-b", "a-c"))
    other.write_bytes(path.read_bytes())
    assert "belongs to a-b, not to a-c" in told(drafts.gather, [other.name])
    other = path.with_name(name.replace("000004", "000005"))
    other.write_bytes(path.read_bytes())
    assert "is of batch 4" in told(drafts.gather, [other.name])
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged" in told(drafts.gather, [name])


@pytest.mark.parametrize("name", ["", "a/b", "..\n", "../x", "ä", "a b"])
def test_only_names_of_drafts(tmp_path, name):
    drafts = Drafts(tmp_path, "r")
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.write(AB, 1, name, [])
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.gather([name])
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.gather([f"000000000001.a-b.{name}/.draft"])


def test_a_draft_is_gathered_once(tmp_path):
    drafts = Drafts(tmp_path, "r")
    name = drafts.write(AB, 1, "..", one(1))
    with pytest.raises(ValueError, match="named twice"):
        drafts.gather([name, name])

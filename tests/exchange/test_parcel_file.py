"""The format of files of parcels: few bytes, and every byte is checked."""

from __future__ import annotations

import tempfile
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.logs import AB, PARCELS, by_all, exchange, filled, told
from thalweg.exchange.parcel_file import CONTROL, VERSION, Edge, Label, encode, read_header, read_parcels
from thalweg.wire import varints
from thalweg.wire.parcel import Kind, Parcel

RUN = "0123456789abcdef" * 2
NOW = 1_763_300_000.123456


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


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
COUNTS = st.integers(0, 1 << 40)
ANY = st.builds(
    Parcel, COUNTS, st.sampled_from(list(Kind)[:4]), COUNTS, st.none() | NUMBERS, NUMBERS, COUNTS, st.binary()
)


@given(st.lists(ANY), st.randoms(), st.integers(0, 1 << 50))
def test_any_parcels_go_and_come(parcels, rng, micros):
    label = Label("r", AB, 1, 1)
    whole = encode(label, micros / 1e6, parcels)
    assert encode(label, micros / 1e6, rng.sample(parcels, len(parcels))) == whole
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(whole)
        header, found = read_parcels(path, "r", AB, 1)
        assert read_header(path, "r", AB, 1) == header
    assert (header.label, header.sent_at, header.size) == (label, micros / 1e6, len(whole))
    assert by_all(found) == by_all(parcels)
    assert header.tuples == sum(p.n for p in parcels)
    assert header.payload == sum(p.payload for p in parcels)
    assert by_all(header.parcels) == by_all(replace(p, data=b"") for p in parcels)
    assert header.body == sum(header.sizes) == sum(len(p.data) for p in parcels)


@pytest.mark.parametrize("numbers", [(1, 0), (90, 93), (5000, 5003)], ids=str)
@pytest.mark.parametrize("lag", [0.5, 3e8], ids=["live", "replayed"])
def test_a_header_is_small(numbers, lag):
    """At most 40 bytes around a bound, 50 around the data of tuples."""
    wall = round(NOW * 1e6) - 400_000
    bound = wall - round(lag * 1e6)
    label = Label(RUN, Edge("berlin", "new_york"), *numbers)
    assert len(encode(label, NOW, [Parcel(5, Kind.TUPLES, 0, bound, wall)])) <= 40
    assert len(encode(label, NOW, [Parcel(5, Kind.TUPLES, 10, bound, wall, 240, bytes(99))])) <= 99 + 48
    several = [Parcel(n, Kind.TUPLES, 10, bound + n, wall, 240, bytes(99)) for n in range(10)]
    assert len(encode(label, NOW, several)) <= 10 * 99 + 48 + 9 * 8


def test_headers_are_read_without_the_body(tmp_path, monkeypatch):
    log = exchange(tmp_path)
    sent = log.publish(1, [Parcel(0, Kind.TUPLES, 9, None, 0, 72, bytes(1 << 24))])
    tracemalloc.start()
    assert log.sent(1) == sent
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert (sent.tuples, sent.payload_bytes, sent.bytes) == (9, 72, log.path(1).stat().st_size)


def rewritten(path, change, version=VERSION):
    """The same file with another header, and checksums that are right."""
    reader = varints.Reader(path.read_bytes())
    front = bytearray(reader.take(2)) + bytes([version])
    reader.take(1)
    length = reader.number()
    old = bytes(reader.take(4))
    header = bytearray(change(bytes(reader.take(length))))
    varints.put(front, len(header))
    checksum = zlib.crc32(header, zlib.crc32(front))
    body = bytes(reader.take(reader.left))
    if body:
        assert zlib.crc32(body[4:], int.from_bytes(old, "little")) == int.from_bytes(body[:4], "little")
        body = zlib.crc32(body[4:], checksum).to_bytes(4, "little") + body[4:]
    path.write_bytes(front + checksum.to_bytes(4, "little") + header + body)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: bytes(4) + h[4:], "belongs to another run, not to 'r'"),
        (lambda h: h[:4] + bytes(4) + h[8:], "belongs to another edge, not to a-b"),
        (lambda h: h[:8] + bytes([4 | h[8] & 1]) + h[9:], "is file 2 of a-b, not 1"),
        (lambda h: h[:9] + b"\x7f" + h[10:], "its header can't be read"),  # a batch before the first
        (lambda h: b"", "its header can't be read"),
        (lambda h: h[:7], "its header can't be read"),
        (lambda h: h[:-1], "its header can't be read"),
        (lambda h: h + b"\0", "its header can't be read"),
        (lambda h: h + b"\xff" * 12, "its header can't be read"),
        (lambda h: h + b"\x10\0\1\1\5", "it is cut short"),
        (lambda h: h + b"\x10\0\1\1" + b"\xff" * 8 + b"\1", "it is cut short"),
        (lambda h: h[:-1] + b"\1", "it is longer than it says"),
    ],
)
def test_headers_that_lie(tmp_path, change, message):
    log = exchange(tmp_path)
    log.publish(1, PARCELS)
    rewritten(log.path(1), bytes)
    assert by_all(log.read(1)) == by_all(PARCELS)
    rewritten(log.path(1), change)
    assert message in told(log.read, 1)
    assert str(log.path(1)) in told(log.sent, 1)


def test_a_header_that_claims_to_be_huge(tmp_path):
    log = filled(tmp_path, 1)
    whole = log.path(1).read_bytes()
    for length in (b"\xff\xff\xff\xff\x0f", b"\xff\x7f"):
        log.path(1).write_bytes(whole[:3] + length + whole[4:])
        assert "is damaged: it is cut short" in told(log.read, 1)
    log.path(1).write_bytes(whole[:3] + b"\xff" * 9 + whole[4:])
    assert "its header can't be read" in told(log.read, 1)


def test_other_versions_are_refused(tmp_path):
    log = filled(tmp_path, 1)
    rewritten(log.path(1), bytes, version=4)
    assert "is of version 4, and this thalweg reads up to 3; update thalweg" in told(log.read, 1)
    rewritten(log.path(1), bytes, version=1)
    assert "is of version 1, and this thalweg reads only 3; start the run in a new" in told(log.read, 1)
    log.path(1).write_bytes(b"TWPF" + bytes(99))
    assert "is damaged: it is no file of parcels" in told(log.read, 1)


def test_what_does_not_fit_is_refused():
    label = Label("r", AB, 1, 1)
    for parcel in (
        *(Parcel(-1, Kind.TUPLES, 0, None, 0), Parcel(0, Kind.TUPLES, -1, None, 0)),
        *(Parcel(1 << 64, Kind.TUPLES, 0, None, 0), Parcel(0, 9, 0, None, 0)),
    ):
        with pytest.raises(ValueError, match=r"does not fit|not a valid Kind"):
            encode(label, 0.0, [parcel])

"""Who may write to the folder of a run: a lock of a folder, a lease in an object store."""

from __future__ import annotations

import json
import os
import uuid

import pytest

from tests.exchange.logs import told
from thalweg import lock
from thalweg.errors import RunError
from thalweg.lock import EXPIRES_S, RENEW_S, Lease, claim
from thalweg.processes import Process
from thalweg.storage import location

ELSEWHERE = "17 4711 other-machine/1"


class Clock:
    """A clock that goes on when somebody sleeps; `beside` is done meanwhile."""

    def __init__(self, beside=lambda: None):
        self.now, self.beside = 0.0, beside

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.beside()


@pytest.fixture
def place(bucket, monkeypatch):
    monkeypatch.setattr(lock, "RENEW_S", 1e6)  # no test waits for the thread
    return bucket / uuid.uuid4().hex


def taken(place, clock):
    return Lease.claim(place / "lock", place, clock, clock.sleep)


def written_by(lease, process):
    """What a holder of this process would have written."""
    lease._record = lambda owner=None: json.dumps(
        {"owner": "other", "process": process, "count": uuid.uuid4().hex}
    ).encode()
    lease.owner = "other"
    lease.renew()


def test_one_at_a_time_in_a_folder(tmp_path):
    first = claim(tmp_path / "lock", tmp_path)
    assert f"another run is using {tmp_path}" in told(claim, tmp_path / "lock", tmp_path)
    first.check()
    first.release()
    first.release()
    claim(tmp_path / "lock", tmp_path).release()


def test_one_at_a_time_in_a_store(place):
    first = claim(place / "lock", place)
    assert f"another run is using {place}" in told(claim, place / "lock", place)
    first.check()
    first.release()
    first.release()
    claim(place / "lock", place).release()


def test_a_lease_of_a_process_that_is_gone_is_free_at_once(place):
    clock = Clock()
    first = taken(place, clock)
    written_by(first, f"{os.getpid()} 1 {Process.of(os.getpid()).where}")
    second = taken(place, clock)
    assert clock.now == 0
    second.check()


def test_a_lease_of_another_machine_is_free_when_it_has_stayed_the_same(place):
    clock = Clock()
    first = taken(place, clock)
    written_by(first, ELSEWHERE)
    second = taken(place, clock)
    assert EXPIRES_S < clock.now < EXPIRES_S + 2
    first.renew()
    with pytest.raises(RunError, match=r"another run has taken over .*; this one stops"):
        first.check()
    first.release()  # leaves it as it is
    second.renew()
    second.check()


def test_a_lease_that_is_renewed_meanwhile_is_not_taken(place):
    first = taken(place, Clock())
    written_by(first, ELSEWHERE)
    clock = Clock(first.renew)
    assert "another run is using" in told(taken, place, clock)
    assert clock.now <= RENEW_S
    first.check()


def test_one_that_could_not_be_renewed_stops_before_another_may_begin(place):
    clock = Clock()
    lease = taken(place, clock)
    clock.now += RENEW_S
    lease.check()
    clock.now += EXPIRES_S - RENEW_S - 1
    with pytest.raises(RunError, match=r"could not be reached for 29 s"):
        lease.check()
    lease.renew()
    lease.check()


def test_an_answer_that_got_lost_is_no_loss(place):
    """The store has done what was asked, and the client has asked again."""
    clock = Clock()
    lease = taken(place, clock)
    lease.file.replace_if(lease.stamp, lease._record())
    lease.renew()
    lease.check()
    lease.renew()
    lease.check()


def test_a_damaged_lease_is_free_after_a_while(place):
    (place / "lock").write_bytes(b"{")
    clock = Clock()
    taken(place, clock).check()
    assert clock.now > EXPIRES_S


def test_a_lease_needs_a_bucket():
    missing = location("s3a://no-such-bucket/run")
    assert "s3a://no-such-bucket/run: there is no bucket 'no-such-bucket'" in told(
        claim, missing / "lock", missing
    )

"""What tests of exchanges share: parcels, and logs of them."""

from __future__ import annotations

import pytest

from thalweg.errors import UserError
from thalweg.exchange.files import FileExchange
from thalweg.exchange.parcel_file import Edge
from thalweg.wire.parcel import Kind, Parcel

PARCELS = [
    Parcel(3, Kind.TUPLES, 2, 17, 1000, 24, b"two tuples"),
    Parcel(3, Kind.TUPLES, 2, None, 1000, 24, b"two others"),
    Parcel(3, Kind.HURRY, 0, -5, 1001),
    Parcel(200, Kind.TUPLES, 1, 17, 999, 8, bytes(range(256))),
]
AB = Edge("a", "b")


def exchange(root, edge=AB, *, run="r", link=None, now=0.0):
    return FileExchange(root, run, edge, link, clock=lambda: now)


def one(n):
    return [Parcel(0, Kind.TUPLES, n, n, 0, 8 * n, bytes(n))]


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

"""A parcel: part of a shipment, on its way from one site to another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """What a parcel or a message brings.

    TUPLES: tuples, or only a bound. ENDS: last moments of windows of rows. END: all streams have ended.
    HURRY: what waits must not wait longer: tuples on disk, and windows that are to be copied. PAST: tuples of
    a window, for operators that start when it is filled already. The others are only of messages within an
    application. REST: tuples that take no part (a NULL key, a filter) but may be late. ASIDE: tuples without
    a usable time. RESULTS and REPORT: output of an earlier stage of the batch.
    """

    TUPLES = 0
    ENDS = 1
    END = 2
    HURRY = 3
    PAST = 4
    REST = 8
    ASIDE = 9
    RESULTS = 10
    REPORT = 11


@dataclass(frozen=True, slots=True)
class Parcel:
    """Part of a shipment.

    `shipment` is the number of the shipment in what the sender's site runs in that batch; its readers and
    its schema are found there. `n` counts the tuples. `bound` is a lower bound on all times that later
    parcels of the shipment can bring. `wall` is the wall clock, in microseconds. `payload` is what the plan
    counts for the parcel, in bytes. `data` is `codec.encode` of the tuples, empty where there are none.
    """

    shipment: int
    kind: Kind
    n: int
    bound: int | None
    wall: int
    payload: int = 0
    data: bytes = b""

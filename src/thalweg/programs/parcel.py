"""What travels between sites: an operator's output, or a part or extract of it, on its way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parcel:
    """`stream` names what is shipped; whoever reads it at the other site knows it by that name.

    `bound` is a lower bound on all times that later parcels of the stream can bring. `payload` is what the
    plan counts for it, in bytes; `data` what is really sent, empty where there are no tuples.
    """

    stream: str
    kind: int
    n: int
    bound: int | None
    wall: int
    payload: int = 0
    data: bytes = b""

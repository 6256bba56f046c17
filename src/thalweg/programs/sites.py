"""What sites run: their operators, what each sends where, and who reads what arrives. Plain data.

A plan is compiled to this (`deploy`), written down as JSON, and read by whoever hosts the sites; so it can be
exchanged for another while they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field, TypeAdapter

from thalweg.kernel.spill import SpillFolder
from thalweg.programs.inlet import Inlet, packets
from thalweg.programs.job import limited
from thalweg.programs.join import JoinProgram
from thalweg.programs.outlet import Outlet
from thalweg.programs.packet import Packet
from thalweg.programs.parcel import Parcel
from thalweg.programs.presence import KeysProgram
from thalweg.programs.probe import ProbeProgram
from thalweg.programs.sink import RelayProgram, SinkProgram
from thalweg.programs.source import SourcePack, SourceProgram
from thalweg.programs.spec import JoinSpec, KeysSpec, Limit, ProbeSpec, SinkSpec, SourceSpec, Spec
from thalweg.programs.state import Cache, Store


@dataclass(frozen=True)
class SiteOperator:
    """An operator at its site: the groups of its buckets, what it does, and where that goes."""

    name: str
    site: str
    groups: tuple[int, ...]
    spec: Annotated[Spec, Field(discriminator="type")]
    outlets: tuple[Outlet, ...] = ()


@dataclass(frozen=True)
class SourceStream:
    """How a stream enters at its site: what Spark evaluates of each row, and how that is packed."""

    stream: str
    site: str
    select: tuple[tuple[str, str], ...]  # (Spark SQL, column)
    pack: SourcePack


@dataclass(frozen=True)
class Sites:
    """All operators of an application, and how parcels get to them."""

    operators: tuple[SiteOperator, ...]
    inlets: tuple[Inlet, ...]
    streams: tuple[SourceStream, ...]

    @cached_property
    def by_group(self) -> Mapping[int, SiteOperator]:
        return {group: o for o in self.operators for group in o.groups}

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Inlet]]:
        found: dict[str, list[Inlet]] = {}
        for inlet in self.inlets:
            found.setdefault(inlet.stream, []).append(inlet)
        return found

    @cached_property
    def outlets(self) -> Mapping[str, Outlet]:
        return {outlet.stream: outlet for o in self.operators for outlet in o.outlets}

    @property
    def source_groups(self) -> list[int]:
        """The groups that must be told when the streams have ended."""
        return [g for o in self.operators if isinstance(o.spec, SourceSpec) for g in o.groups]

    def arriving(self, parcel: Parcel) -> Iterator[Packet]:
        """A parcel as packets for all who read it."""
        for inlet in self._readers.get(parcel.stream, ()):
            yield from packets(inlet, parcel)

    def to_json(self) -> bytes:
        return _ADAPTER.dump_json(self)

    @classmethod
    def from_json(cls, data: bytes) -> Sites:
        return _ADAPTER.validate_json(data)


_ADAPTER = TypeAdapter(Sites)


def run(
    operator: SiteOperator,
    packets_: Iterable[Packet],
    store: Store,
    cache: Cache,
    limit: Limit | None = None,
    folder: SpillFolder | None = None,
) -> Iterator[Packet]:
    """Give an operator's bucket what one micro-batch brings to it.

    `limit` is to the memory of a join; what it has no room for goes to `folder`.
    """
    spec = operator.spec
    if isinstance(spec, JoinSpec):
        spec = spec if limit is None else limited(spec, limit)
        return JoinProgram(spec).call(packets_, store, cache, folder)
    if isinstance(spec, ProbeSpec):
        return ProbeProgram(spec).call(packets_, store, cache)
    if isinstance(spec, SourceSpec):
        return SourceProgram(spec).call(packets_, store)
    if isinstance(spec, KeysSpec):
        return KeysProgram(spec).call(packets_, store)
    return (SinkProgram(spec) if isinstance(spec, SinkSpec) else RelayProgram(spec)).call(packets_, store)

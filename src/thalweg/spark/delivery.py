"""What arrives at the sites of an application, as packets for the operators that read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import types as t

from thalweg.spark.inbox import Arrived, Inbox
from thalweg.spark.parcels import CONTROL
from thalweg.spark.schema import PACKET

LISTS = "lists"
"""The option that says where the lists of what sites run are."""


class SiteInbox(Inbox):
    """What arrives, as packets for the operators that read it."""

    @classmethod
    def name(cls) -> str:
        return "thalweg_sites"

    def schema(self) -> t.StructType:
        return PACKET

    def rows(self, parcels: Iterator[Arrived]) -> Iterator[pa.RecordBatch]:
        # Spark also loads this class into processes that only plan batches, and starts them anew each time:
        # what takes seconds to load is loaded where parcels are read.
        from thalweg.programs.packet import Kind, Packet
        from thalweg.spark.lists import Lists, batch_number
        from thalweg.spark.packets import record_batch
        from thalweg.spark.worker import settle

        settle()
        sites = Lists(Path(self.options[LISTS])).at(batch_number())
        for parcel in parcels:
            if parcel.edge != CONTROL.name:
                yield from (record_batch([packet]) for packet in sites.arriving(parcel))
            elif parcel.kind == Kind.END:
                ends = [Packet(g, 0, Kind.END, 0, None, parcel.wall) for g in sites.source_groups]
                yield record_batch(ends)

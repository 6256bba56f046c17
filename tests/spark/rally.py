"""A program to be killed: throws a ball back and forth between two sites until it has lost its n."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from thalweg.exchange.drafts import Drafts
from thalweg.exchange.files import FileExchanges
from thalweg.exchange.parcel_file import Edge
from thalweg.files import write_text
from thalweg.operators.outlet import Outlet
from thalweg.operators.program import KeyGroup, Placed, Program, Route
from thalweg.operators.spec import START, SourceSpec
from thalweg.spark.inbox import Inbox, InboxOptions
from thalweg.spark.program_files import Programs
from thalweg.spark.session import session
from thalweg.wire.codec import encode
from thalweg.wire.parcel import Kind, Parcel

AB, BA = Edge("a", "b"), Edge("b", "a")
GROUPS = {"a": 1, "b": 2}


def program(prefix: str = "", first: int = 0) -> Program:
    """Two sites that throw a ball to each other. A message comes over a channel with the name of its edge.

    Names begin with the prefix; shipments are counted from `first`.
    """

    def site(edge: Edge, shipment: int) -> KeyGroup:
        thrown = Outlet(prefix + edge.name, "site", site=edge.target, shipment=shipment)
        player = Placed(prefix + edge.source, SourceSpec(edge.source, 0), (), (thrown,))
        return KeyGroup(edge.source, "whole", 1, (GROUPS[edge.source],), (player,))

    routes = tuple(Route(prefix + e.name, prefix + e.name, (GROUPS[e.target],)) for e in (AB, BA))
    return Program((site(AB, first), site(BA, first + 1)), routes, ())


def ball(edge: Edge, n: int, seq: int, first: int = 0) -> Parcel:
    """A ball that will be thrown n times more. Its n tuples all say n; its clock says its number."""
    rows = pa.record_batch([pa.array([n] * n, pa.int64())], names=[START])
    return Parcel(first + (edge == BA), Kind.TUPLES, n, None, seq, 8, encode(rows) if n else b"")


def main(root: Path) -> None:
    programs = Programs(str(root / "programs"))
    options = InboxOptions(root / "exchange", "rally", ("a", "b"), str(root / "programs"))
    exchanges, drafts = FileExchanges(options.root, options.run), Drafts(options.root, options.run)

    def catch(frame, batch):
        rows = frame.collect()
        for row in rows:
            if row["n"]:
                edge = BA if row["channel"] == AB.name else AB
                thrown = [ball(edge, row["n"] - 1, exchanges.over(edge).last() + 1)]
                exchanges.over(edge).publish(batch, drafts.gather([drafts.write(edge, batch, "x", thrown)]))
                drafts.clear(batch)
        write_text(
            root / "seen" / f"{batch:09d}", json.dumps([[r["channel"], r["wall"], r["n"]] for r in rows])
        )

    if not programs.path(0).exists():
        programs.put(0, program())
    spark = session("local[2]", root / "spark.log", **{"spark.driver.memory": "1g"})
    spark.dataSource.register(Inbox)
    frame = spark.readStream.format(Inbox.name()).options(**options.texts()).load()
    writer = frame.writeStream.foreachBatch(catch).trigger(availableNow=True)
    writer.option("checkpointLocation", str(root / "checkpoint")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A program to be killed: throws a ball back and forth between two sites until it has lost its n."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from thalweg.programs.parcel import Parcel
from thalweg.spark.drafts import Drafts
from thalweg.spark.exchange import FileExchanges
from thalweg.spark.parcels import Edge

from thalweg.spark.folder import write
from thalweg.spark.inbox import Inbox, InboxOptions
from thalweg.spark.session import session

AB, BA = Edge("a", "b"), Edge("b", "a")


def main(root: Path) -> None:
    options = InboxOptions(root / "exchange", "rally", ("a", "b"))
    exchanges, drafts = FileExchanges(options.root, options.run), Drafts(options.root, options.run)

    def catch(frame, batch):
        rows = frame.collect()
        for row in rows:
            if row["n"]:
                edge = BA if row["edge"] == AB.name else AB
                thrown = [Parcel("ball", 0, row["n"] - 1, None, 0, 8, b"!")]
                exchanges.over(edge).publish(batch, drafts.gather([drafts.write(edge, batch, "x", thrown)]))
                drafts.clear(batch)
        write(root / "seen" / f"{batch:09d}", json.dumps([[r["edge"], r["seq"], r["n"]] for r in rows]))

    spark = session("local[2]", root / "spark.log", **{"spark.driver.memory": "1g"})
    spark.dataSource.register(Inbox)
    frame = spark.readStream.format(Inbox.name()).options(**options.texts()).load()
    writer = frame.writeStream.foreachBatch(catch).trigger(availableNow=True)
    writer.option("checkpointLocation", str(root / "checkpoint")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

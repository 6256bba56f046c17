"""Results as parquet files in a folder, named by batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from thalweg.files import NewFile, move
from thalweg.spark.result_files import Found, ResultFile
from thalweg.spark.sinks.sink import BatchResults, Sink
from thalweg.spark.sinks.versions import Versions
from thalweg.spark.typing import arrow_schema
from thalweg.storage import Location

_MANY, _SMALL, _TOGETHER = 64, 16 << 20, 64 << 20
"""So many files smaller than this become one, of about this size at most; sizes are in bytes."""

_BATCH = re.compile(r"(\d{9})-\d{4}\.parquet|merged-\d{9}-(\d{9})-\d{9}\.parquet")


@dataclass(frozen=True)
class ParquetSink(Sink):
    """Flat files NUMBER-PART.parquet in `folder`, those of each batch exactly once. Drafts are in `draft`.

    With `merges`, many small files of earlier batches become one; not in an object store, where the names of
    a folder can't change at once.
    """

    guarantee: ClassVar[str] = "exactly once"

    folder: Location
    draft: Location
    merges: bool = False

    def prepare(self, results: DataFrame) -> None:
        """At least one file, so that readers find the columns even where there is no result."""
        if self.merges and isinstance(self.folder, Path):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            Versions(self.folder).open()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not any(self.folder.glob("*.parquet")):
            # Not `*.parquet` before it is whole: readers would take it, and the next run as well.
            draft = NewFile(self.folder / ".schema")
            pq.write_table(arrow_schema(results.schema).empty_table(), draft.local, store_schema=False)
            draft.close()
            move(draft.path, self.folder / "schema.parquet")

    def clear(self, batch: int) -> None:
        for file in self.folder.glob(f"{batch:09d}-*"):
            file.unlink()

    def write(self, results: BatchResults) -> None:
        self.publish(results.files, results.batch)

    def publish(self, drafts: Found, batch: int) -> None:
        """Move drafts, each a name and its rows, to where readers look."""
        for part, name in enumerate(sorted(name for name, rows in drafts if rows)):
            move(self.draft / name, self.folder / f"{batch:09d}-{part:04d}.parquet")

    def tidy(self, batch: int) -> None:
        """Merge small files of batches before this one, which will not be repeated, where there are many."""
        if not self.merges or not isinstance(self.folder, Path) or not self.folder.is_symlink():
            return
        assert isinstance(self.draft, Path)
        found = {f: m for f in self.folder.iterdir() if (m := _BATCH.fullmatch(f.name))}
        last = {f: int(m[1] or m[2]) for f, m in found.items()}
        sizes = {f: f.stat().st_size for f, n in last.items() if n < batch}
        small = sorted((f for f, size in sizes.items() if size < _SMALL), key=lambda f: (last[f], f.name))
        if len(small) < _MANY:
            return
        chosen = [
            f for f, upto in zip(small, accumulate(sizes[f] for f in small), strict=True) if upto < _TOGETHER
        ]
        # Without room for it, the files stay as they are.
        with contextlib.suppress(OSError):
            if (draft := _merged(chosen, self.draft)) is not None:
                versions = Versions(self.folder)
                first = min(int(f.name.removeprefix("merged-")[:9]) for f in chosen)
                upto = max(last[f] for f in chosen)
                name = f"merged-{first:09d}-{upto:09d}-{versions.current + 1:09d}.parquet"
                versions.replace({f.name for f in chosen}, self.draft / draft, name)


def _merged(files: Sequence[Path], folder: Path) -> str | None:
    """Write the rows of some files as one, whose name it gives; None where only Spark can store them."""
    schema = pq.read_schema(files[0])
    if schema.metadata and _SPARKS in schema.metadata:
        return None
    merged = ResultFile(str(folder), schema)
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches():
            merged.add(batch)
    merged.close()
    return merged.name


_SPARKS = b"org.apache.spark.sql.parquet.row.metadata"

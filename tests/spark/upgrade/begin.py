"""A run over two sites that a version begins and another one continues.

    python -m tests.spark.upgrade.begin     begins it with this version, and writes begun.tar.xz anew

To be done at a release, and when the format of state changes: a run of the version before is refused then.
The one that was refused last is kept as well.
"""

from __future__ import annotations

import datetime
import io
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

BEGUN = Path(__file__).with_name("begun.tar.xz")
OLDER = Path(__file__).with_name("begun-5.tar.xz")
"""The same, begun by a version whose state had format 5."""
HERE = b"@HERE@"
"""In the files of the run, in place of the folder that it was begun in."""
_LEFT_OUT = {"lock", "jvm", "spark.log", "network.svg"}
_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

CATALOG = """\
sites: {n1: {}, n2: {}}
streams:
  a:
    site: n1
    time: ts
    schema: {ts: timestamp, k: long, id: long}
    source: {format: parquet, options: {path: data/a}}
    stats: {rate: 1}
  b:
    site: n2
    time: ts
    schema: {ts: timestamp, k: long, id: long}
    source: {format: parquet, options: {path: data/b}}
    stats: {rate: 2}
"""
SQL = (
    "SELECT a.id AS a, b.id AS b, result_time "
    "FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k\n"
)
ARGUMENTS = ("run", "pairs.sql", "--catalog", "catalog.yaml", "--out", "out")


def write(folder: Path, part: int, first: int, last: int) -> None:
    """A further file of each stream."""
    for n, name in enumerate(("a", "b")):
        (folder / "data" / name).mkdir(parents=True, exist_ok=True)
        rows = range(first, last)
        times = [_START + datetime.timedelta(seconds=i + n / 2) for i in rows]
        table = {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": pa.array([i * (n + 1) % 5 for i in rows]),
            "id": pa.array(list(rows)),
        }
        pq.write_table(pa.table(table), folder / "data" / name / f"{part}.parquet")


def place(folder: Path) -> None:
    """What the run reads: the catalog, the query, and the two files of each stream that have come."""
    (folder / "catalog.yaml").write_text(CATALOG)
    (folder / "pairs.sql").write_text(SQL)
    write(folder, 0, 0, 40)
    write(folder, 1, 40, 60)


def unpack(folder: Path, begun: Path = BEGUN) -> None:
    """The folder of the run, as if it had been begun here."""
    with tarfile.open(begun) as archive:
        archive.extractall(folder, filter="data")
    for file in (f for f in (folder / "out").rglob("*") if f.is_file()):
        if HERE in (data := file.read_bytes()):
            file.write_bytes(data.replace(HERE, str(folder).encode()))
    (folder / "out" / "_thalweg").chmod(0o700)


def pack(folder: Path) -> None:
    """Write down the folder of the run."""
    with tarfile.open(BEGUN, "w:xz") as archive:
        for file in sorted((folder / "out").rglob("*")):
            if file.name in _LEFT_OUT:
                continue
            info = archive.gettarinfo(file, str(file.relative_to(folder)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if not info.isfile():
                archive.addfile(info)
                continue
            data = file.read_bytes().replace(str(folder).encode(), HERE)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def begin() -> None:
    """Begin the run, and stop it when it has read the second file of each stream."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place(folder)
        run = subprocess.Popen([sys.executable, "-m", "thalweg", *ARGUMENTS], cwd=folder)
        commits = folder / "out/_thalweg/checkpoint/commits"
        while run.poll() is None and not (commits / "2").exists():
            time.sleep(0.2)
        run.send_signal(signal.SIGTERM)
        run.wait()
        pack(folder)


if __name__ == "__main__":
    begin()

import datetime
import json
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.cli.main import invoke

CATALOG = """
sites: {n1: {}, n2: {}}
streams:
  s1:
    site: n1
    time: ts
    schema: {ts: timestamp, k: long, v: string}
    source: {format: parquet, options: {path: data/s1}}
    stats: {rate: 10}
  s2:
    site: n1
    time: ts
    schema: {ts: timestamp, k: long, v: string}
    source: {format: parquet, options: {path: data/s2}}
"""
QUERY = "SELECT a.v AS x, b.v AS y FROM s1 [RANGE 10 SECONDS] a, s2 [RANGE 10 SECONDS] b WHERE a.k = b.k\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a catalog, two streams and a query; the commands run in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    (tmp_path / "q.sql").write_text(QUERY)
    for name in ("s1", "s2"):
        (tmp_path / "data" / name).mkdir(parents=True)
        times = pa.array(
            [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 2, pa.timestamp("us", tz="UTC")
        )
        data = {"ts": times, "k": [1, 2], "v": [f"{name}.1", f"{name}.2"]}
        pq.write_table(pa.table(data), tmp_path / "data" / name / "0.parquet")
    return tmp_path


@pytest.fixture
def thalweg(capsys):
    """Runs a command; gives its exit status and what it wrote."""

    def call(*arguments):
        status = invoke([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return types.SimpleNamespace(
            status=status, out=out, err=err, json=json.loads(out) if "--json" in arguments and out else None
        )

    return call

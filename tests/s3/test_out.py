"""Runs whose folder is in a bucket, on a real S3 server: killed at any moment, and on a cluster."""

from __future__ import annotations

import json
import os
import random
from urllib.request import urlopen

import pytest

from tests.spark.cluster import cluster, free_port
from tests.spark.feed import catalog_yaml
from tests.spark.places import CHAIN, check_complete, place
from tests.spark.test_kill import batches_of
from tests.spark.test_sites_kill import check, disturbed

pytestmark = pytest.mark.s3

KILLS = int(os.environ.get("KILLS", "3"))
LITTLE_MEMORY = ("--memory-budget", "10kB", "--spill-delay", "5 seconds")


@pytest.mark.parametrize("kind", ["tree", "partitioned", "groups"])
def test_killed_at_any_moment_each_result_is_there_once(bucket, tmp_path, start, command, kind):
    """Three sites, so parcels are on their way in the bucket as well."""
    rng = random.Random(os.environ.get("SEED", kind))
    kills = [rng.choice(("driver", "jvm")), *rng.choices(("driver", "jvm", "worker"), k=KILLS - 1)]
    check(tmp_path, start, command, kind, kills, seed=3, out=str(bucket / f"killed-{kind}"))


def test_windows_that_spill_into_the_bucket(bucket, tmp_path, command):
    made = place(tmp_path, CHAIN, at=dict.fromkeys("abcd", "n1"))
    out = str(bucket / "spilled")
    code, said, err = command(*made.run("--planner", "simple", *LITTLE_MEMORY, out=out), cwd=tmp_path)
    assert code == 0, err
    metrics = json.loads(said)
    assert metrics["windows"]["disk_bytes"] > 0
    check_complete(made, metrics, command, out)


def test_a_cluster_whose_machines_share_only_the_bucket(bucket, tmp_path, start, command):
    """Sources and output are in the bucket; the workers don't see the folder that the driver is in."""
    data, own = bucket / "cluster-data", tmp_path / "own"
    own.mkdir()
    made = place(own, CHAIN)
    for file in sorted((own / "data").glob("*/*")):  # Spark reads them as they came
        (data / file.parent.name / file.name).put(file)
    catalog = own / "catalog.yaml"
    catalog.write_text(catalog_yaml(made.feeds, data=str(data), at=made.at))
    out = str(bucket / "cluster")
    with cluster(tmp_path, hidden=own) as address:
        arguments = made.run("--planner", "optimal", "--master", address, out=out)
        status, _ = disturbed(own, start, arguments, "driver", 1, False, random.Random(1), out)
        assert status
        assert batches_of(own, out) >= 1
        code, said, err = command(*arguments, cwd=own)
        assert code == 0, err
        check_complete(made, json.loads(said), command, out)
        assert len({*(tmp_path / "work").glob("*/app-*")}) == 4  # both workers ran it, both times


def test_what_a_run_in_a_bucket_shows(bucket, tmp_path, command, start):
    made = place(tmp_path, CHAIN, count=2, size=20)
    out = str(bucket / "shown")
    arguments = made.run("--planner", "optimal", out=out)
    code, _, err = command(*arguments, cwd=tmp_path)
    assert code == 0, err
    code, said, err = command("history", out, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert said.startswith("nothing was considered")
    code, said, err = command(*(a for a in arguments if a != "--json"), cwd=tmp_path)
    assert code == 0, err
    assert "nothing to do" in err
    port = free_port()
    page = start("page", out, "--port", port)
    try:
        assert page.stdout.readline().startswith(f"page of {out}: http://127.0.0.1:{port}/")
        told = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        assert f'thalweg_rows_total{{stream="a"}} {len(made.feeds["a"].rows)}.0' in told, told
    finally:
        page.terminate()
        page.wait()
    code, _, err = command("verify", "q.sql", "--catalog", "catalog.yaml", "--out", "s3a://nowhere-at-all/x")
    assert code == 2

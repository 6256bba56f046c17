"""`--memory-budget`: less memory than the windows need, and the same results."""

from __future__ import annotations

import json
import random
import shutil
import time

import pytest

import thalweg
from thalweg.exchange.files import FileExchange
from thalweg.exchange.parcel_file import CONTROL
from thalweg.wire.parcel import Kind, Parcel

from .feed import SECOND, Feed, catalog_yaml, drained, expected, results_of, written
from .test_run import one_message

SQL = """SELECT a.id AS x, b.id AS y, c.id AS z, result_time
FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS], c [RANGE 20 SECONDS] WHERE a.k = b.k AND b.k = c.k
"""
RUN = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out")
COLUMNS = {"ts": "timestamp", "k": "int", "id": "bigint", "note": "string"}


def feeds_of(batches: int = 8) -> dict[str, Feed]:
    """Three streams of 500 tuples a batch of five seconds."""
    rng = random.Random(7)
    return {
        name: Feed(
            COLUMNS,
            [
                [
                    {
                        "ts": (5 * n) * SECOND + i * 10_000,
                        "k": rng.randrange(3000),
                        "id": 500 * n + i,
                        "note": "x" * rng.randrange(40),
                    }
                    for i in range(500)
                ]
                for n in range(batches)
            ],
            lateness=SECOND,
        )
        for name in "abc"
    }


OUTER = "SELECT a.id AS a, b.id AS b FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k"


@pytest.fixture(scope="module")
def feeds():
    return feeds_of()


def place(root, feeds):
    root.mkdir(exist_ok=True)
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds))
    (root / "q.sql").write_text(SQL)
    return root


def pieces(root):
    return sorted((root / "out" / "_thalweg" / "spill").rglob("*.arrow"))


@pytest.mark.parametrize("delay", ["0 seconds", "8 seconds"])
def test_a_run_with_little_memory(tmp_path, feeds, thalweg, delay):
    root = place(tmp_path, feeds)
    more = ("--memory-budget", "600 kB", "--spill-delay", delay, "--once", "--json")
    code, out, err = thalweg(*RUN, *more, cwd=root)
    assert code == 0, err
    metrics = json.loads(out)
    assert results_of(root / "out") == expected(SQL, feeds)
    assert metrics["complete"]
    assert metrics["windows"]["disk_bytes"] > 100_000
    assert 0 < metrics["windows"]["memory_bytes"] <= 600_000
    assert pieces(root) == []
    code, out, err = thalweg("verify", "q.sql", "--catalog", "catalog.yaml", "--out", "out", cwd=root)
    assert code == 0, err


def test_a_join_with_little_memory(spark, tmp_path, feeds):
    folder = written(feeds, tmp_path / "data")
    joined = thalweg.join(
        {n: f.live(spark, folder / n) for n, f in feeds.items()},
        on="k",
        within="20 seconds",
        time="ts",
        lateness="1 second",
        memory_budget="600 kB",
        spill=tmp_path / "spill",
    )
    found, _ = drained(joined.selectExpr("a_id", "b_id", "c_id", "result_time"), tmp_path / "checkpoint")
    assert found == expected(SQL, feeds)
    assert list((tmp_path / "spill").rglob("*.arrow"))
    # Another query over the same join has files of its own.
    again, _ = drained(joined.selectExpr("a_id", "b_id", "c_id", "result_time"), tmp_path / "other")
    assert again == found
    assert len({p.relative_to(tmp_path / "spill").parts[0] for p in tmp_path.rglob("*.arrow")}) == 2


def test_a_budget_without_a_folder_is_refused(spark, feeds, tmp_path):
    folder = written(feeds, tmp_path)
    frames = {n: f.live(spark, folder / n) for n, f in feeds.items()}
    with pytest.raises(thalweg.UserError, match="belong together"):
        thalweg.join(frames, on="k", within="20 seconds", time="ts", memory_budget="1 MB")
    with pytest.raises(thalweg.UserError, match="3 is no folder"):
        thalweg.join(frames, on="k", within="20 s", time="ts", memory_budget="1 MB", spill=3)
    with pytest.raises(thalweg.UserError, match="is not a size"):
        thalweg.join(frames, on="k", within="1 s", time="ts", memory_budget="much", spill=tmp_path / "s")


@pytest.mark.parametrize(
    ("sql", "more", "said"),
    [
        (SQL, ("--memory-budget", "0"), "is not a size"),
        (SQL, ("--memory-budget", "5 XB"), "is not a size"),
        (SQL, ("--spill-delay", "5 seconds"), "needs --memory-budget"),
        (SQL, ("--memory-budget", "5 MB", "--spill-delay", "5"), "no unit"),
        (SQL, ("--memory-budget", "5 MB", "--spill-delay", ""), "--spill-delay"),
        (SQL.replace("RANGE 20 SECONDS", "ROWS 5"), ("--memory-budget", "5 MB"), "windows of rows"),
        (OUTER, ("--memory-budget", "5 MB"), "outer joins"),
    ],
)
def test_what_can_not_have_a_budget_is_refused(tmp_path, thalweg, sql, more, said):
    feeds = {n: Feed(f.columns, f.batches, order=("id",)) for n, f in feeds_of(1).items()}
    root = place(tmp_path, feeds)
    (root / "q.sql").write_text(sql)
    code, _, err = thalweg(*RUN, *more, "--once", cwd=root)
    assert code == 2
    assert said in one_message(err)


def test_a_run_that_was_refused_leaves_its_folder_free(tmp_path, thalweg):
    few = {n: Feed(f.columns, f.batches, order=("id",)) for n, f in feeds_of(1).items()}
    root = place(tmp_path, few)
    rows = SQL.replace("RANGE 20 SECONDS", "ROWS 5")
    (root / "q.sql").write_text(rows)
    assert thalweg(*RUN, "--memory-budget", "5 MB", "--once", cwd=root)[0] == 2
    code, out, err = thalweg(*RUN, "--once", "--json", cwd=root)
    assert code == 0, err
    assert results_of(root / "out") == expected(rows, few)
    assert "windows" not in json.loads(out)


def test_a_budget_that_no_join_can_keep_to_is_told(tmp_path, thalweg):
    few = feeds_of(2)
    root = place(tmp_path, few)
    code, _, err = thalweg(*RUN, "--memory-budget", "1 kB", "--once", "--json", cwd=root)
    assert code == 0
    assert "more than the budget of 1000 B" in err
    assert results_of(root / "out") == expected(SQL, few)


@pytest.mark.long
def test_a_damaged_file_is_named_and_put_right(tmp_path, feeds, start, command):
    """Killed with windows on disk, a file of them lost: an error that names it; put back: exact."""
    root = place(tmp_path, feeds_of(30))
    more = ("--memory-budget", "300 kB", "--spill-delay", "8 seconds", "--once")
    process = start(*RUN, *more, cwd=root)
    deadline = time.monotonic() + 240
    while not pieces(root) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
    process.kill()
    process.wait()
    time.sleep(2)  # workers outlive a killed driver by a moment
    shutil.copytree(root / "out" / "_thalweg" / "spill", root / "good")
    for file in pieces(root):
        file.write_bytes(file.read_bytes()[:-1])
    code, _, err = command(*RUN, *more, cwd=root)
    assert code == 2, err
    assert "is damaged" in one_message(err)
    assert ".arrow" in one_message(err)
    shutil.rmtree(root / "out" / "_thalweg" / "spill")
    shutil.copytree(root / "good", root / "out" / "_thalweg" / "spill")
    code, _, err = command(*RUN, *more, cwd=root)
    assert code == 0, err
    assert results_of(root / "out") == expected(SQL, feeds_of(30))
    code, _, err = command(*RUN, "--once", cwd=root)
    assert code == 0, err


def batches_of(out):
    return json.loads((out / "metrics.json").read_text())["batches"]


@pytest.mark.long
def test_what_waits_comes_out_when_nothing_comes_any_more(tmp_path, start):
    """A live run whose streams fall silent: all results are there soon, without a further tuple."""
    few = feeds_of(6)
    root = place(tmp_path, few)
    wanted = expected(SQL, few)
    process = start(*RUN, "--memory-budget", "10 kB", "--spill-delay", "5 seconds", cwd=root)
    out = root / "out"
    deadline = time.monotonic() + 900

    def until(reached):
        while not reached() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.5)
        assert reached()

    try:
        until(lambda: any((out / "results" / "q").glob("*.parquet")))
        until(lambda: results_of(out) == wanted)
        # What has told so is removed when two further batches have been told.
        control = out / "_thalweg" / "exchange" / "control"
        until(lambda: len(list(control.glob("*.parcels"))) == 1)
        (told,) = control.glob("*.parcels")
        job = json.loads((out / "_thalweg" / "job.json").read_text())
        again = FileExchange(out / "_thalweg" / "exchange", job["run"], CONTROL)
        for _ in range(2):
            done = batches_of(out)
            again.publish(again.last(), [Parcel(0, Kind.HURRY, 0, None, 0)])
            until(lambda done=done: batches_of(out) > done)
        until(lambda: not told.exists())
    finally:
        process.terminate()
        process.wait(timeout=120)

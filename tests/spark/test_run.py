"""`thalweg run` and `thalweg verify` as users call them."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thalweg.page.reading import RunFolder
from thalweg.spark.host import SparkHost
from thalweg.spark.run import _Changed, _Run, _Stop

from .feed import SECOND, Feed, catalog_yaml, expected, multiset, results_of, rows, written

Q1 = """SELECT a.id AS a_id, b.id AS b_id, a.note, result_time
FROM a [RANGE 5 SECONDS], b [RANGE 8 SECONDS] WHERE a.k = b.k AND a.id <> 13 AND a.id + b.id < 70
"""
Q2 = """SELECT a.id AS a_id, j.id AS j_id, c.id AS c_id, lower(j.word) AS word
FROM a [RANGE 5 SECONDS] JOIN j [RANGE 5 SECONDS] ON a.k = j.k
JOIN c [RANGE 20 SECONDS] ON lower(j.word) = c.word
"""
NOTHING = "SELECT a.id, b.k + 1 AS k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k AND a.id < 0\n"


def random_batches(seed, count, size, columns, spread=40):
    """Rows whose times go on from batch to batch, out of order, and sometimes far too old."""
    rng = random.Random(seed)
    batches, number = [], 0
    for n in range(count):
        batch = []
        for _ in range(size):
            ts = n * spread // count + rng.randrange(6) - (30 if rng.random() < 0.08 else 0)
            row = {
                "ts": ts * SECOND,
                "k": rng.randrange(4),
                "id": number,
                "word": rng.choice(["x", "Y", "z"]),
            }
            row["note"] = f"n{number}"
            if rng.random() < 0.05:
                row["ts"] = None
            batch.append({c: row[c] for c in columns})
            number += 1
        batches.append(batch)
    return batches


@pytest.fixture(scope="module")
def feeds():
    plain = {"ts": "timestamp", "k": "int", "id": "bigint", "note": "string"}
    worded = {"ts": "timestamp", "k": "int", "id": "bigint", "word": "string"}
    lower = [
        [{**row, "word": row["word"].lower()} for row in batch] for batch in random_batches(4, 3, 12, worded)
    ]
    return {
        "a": Feed(plain, random_batches(1, 4, 15, plain), lateness=5 * SECOND),
        "b": Feed({**plain, "k": "bigint"}, random_batches(2, 4, 15, plain), lateness=10 * SECOND),
        "j": Feed(worded, random_batches(3, 3, 12, worded), format="json"),
        "c": Feed(worded, lower, format="csv"),
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory, feeds):
    """A folder with the streams, their catalog and the queries."""
    root = tmp_path_factory.mktemp("place")
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds))
    for name, text in (("q1", Q1), ("q2", Q2), ("nothing", NOTHING)):
        (root / f"{name}.sql").write_text(text)
    return root


RUN = ("run", "q1.sql", "q2.sql", "nothing.sql", "--catalog", "catalog.yaml", "--out", "out", "--once")


@pytest.fixture(scope="module")
def complete(place, command):
    """A run of three queries at once, and what it printed."""
    code, out, err = command(*RUN, "--json", cwd=place)
    assert code == 0, err
    return out, err


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()}


def one_message(err: str) -> str:
    """Standard error of a refused command: one line, no traceback."""
    (line,) = err.strip().splitlines()
    assert line.startswith("thalweg: ")
    return line


def test_json_is_one_object_and_nothing_else(complete, place):
    out, err = complete
    assert json.loads(out) == json.loads((place / "out" / "metrics.json").read_text())
    assert out.count("\n") == 1 or json.loads(out)
    assert "batch" not in err


def test_results_of_several_queries(complete, place, feeds):
    for name, sql in (("q1", Q1), ("q2", Q2), ("nothing", NOTHING)):
        wanted = expected(sql, feeds)
        assert results_of(place / "out", name) == wanted
        assert bool(wanted) == (name != "nothing")


def test_the_folder(complete, place, feeds):
    out = place / "out"
    assert {p.name for p in out.iterdir()} >= {"results", "late", "plan.json", "metrics.json"}
    assert {p.name for p in (out / "results").iterdir()} == {"q1", "q2", "nothing"}
    for folder in (out / "results").iterdir():
        assert folder.is_dir()
        assert all(p.is_file() and p.suffix == ".parquet" for p in folder.iterdir())
    (file,) = (out / "results" / "nothing").iterdir()
    empty = pq.ParquetFile(file).read()
    assert (empty.num_rows, empty.column_names) == (0, ["id", "k"])
    for name, feed in feeds.items():
        late = sum(
            (multiset(pq.ParquetFile(f).read()) for f in (out / "late" / name).glob("*.parquet")), Counter()
        )
        assert late == multiset(feed.table(feed.split()[1]))
        assert late
    assert {p["query"] for p in json.loads((out / "plan.json").read_text())["queries"]} == {
        "q1",
        "q2",
        "nothing",
    }


def test_the_metrics_are_exact(complete, feeds):
    metrics = json.loads(complete[0])
    assert metrics.pop("elapsed_s") > 0
    assert metrics == {
        "input_rows": {name: len(feed.rows) for name, feed in feeds.items()},
        "output_rows": {
            n: sum(expected(q, feeds).values()) for n, q in (("q1", Q1), ("q2", Q2), ("nothing", NOTHING))
        },
        "late_rows": {name: len(feed.split()[1]) for name, feed in feeds.items()},
        "shipped": [],
        "plan_changes": 0,
        "batches": 4,
        "complete": True,
    }


def test_a_further_run_says_so_and_changes_nothing(complete, place, thalweg):
    before = files_of(place / "out")
    code, out, err = thalweg(*RUN, cwd=place)
    assert code == 0
    assert "complete" in err + out
    assert files_of(place / "out") == before
    code, out, _ = thalweg(*RUN, "--json", cwd=place)
    assert (code, json.loads(out)) == (0, json.loads(complete[0]))
    assert files_of(place / "out") == before


def test_other_queries_or_another_catalog_are_refused(complete, place, thalweg):
    before = files_of(place / "out")
    (place / "changed").mkdir()
    (place / "changed" / "q1.sql").write_text(Q1.replace("5 SECONDS", "6 SECONDS"))
    (place / "other.yaml").write_text(
        (place / "catalog.yaml").read_text().replace("5000000 micro", "6000000 micro")
    )
    tail = RUN[4:]
    for arguments, message in (
        (("run", "changed/q1.sql", "q2.sql", "nothing.sql", *tail), "quer"),
        (("run", "q1.sql", *tail), "quer"),
        ((*RUN[:5], "other.yaml", *RUN[6:]), "catalog"),
    ):
        code, out, err = thalweg(*arguments, cwd=place)
        assert (code, out) == (2, "")
        assert message in one_message(err)
    assert files_of(place / "out") == before


def test_verify(complete, place, command):
    for name in ("q1", "nothing"):
        code, out, err = command(
            "verify", f"{name}.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=place
        )
        assert (code, err) == (0, "")
        verdict = json.loads(out)
        assert verdict["same"] is True
        assert verdict["expected"] == verdict["found"] == sum(results_of(place / "out", name).values())


def test_verify_of_text_formats(complete, place, thalweg):
    code, out, err = thalweg(
        "verify", "q2.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=place
    )
    assert code == 0, err
    assert json.loads(out)["same"] is True


@pytest.mark.parametrize("change", ["removed", "doubled"])
def test_verify_sees_a_row_that_was_tampered_with(complete, place, command, change):
    file = max((place / "out" / "results" / "q1").iterdir(), key=lambda f: pq.read_metadata(f).num_rows)
    kept = file.read_bytes()
    table = pq.ParquetFile(file).read()
    changed = table.slice(1) if change == "removed" else pa.concat_tables([table, table.slice(0, 1)])
    try:
        pq.write_table(changed, file)
        code, out, _ = command(
            "verify", "q1.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=place
        )
    finally:
        file.write_bytes(kept)
    verdict = json.loads(out)
    assert (code, verdict["same"]) == (1, False)
    assert (verdict["missing"], verdict["extra"]) == ((1, 0) if change == "removed" else (0, 1))
    assert len(verdict["examples"]) == 1


def test_a_folder_with_other_files_is_refused(place, thalweg):
    (place / "mine").mkdir()
    (place / "mine" / "letter.txt").write_text("dear")
    code, out, err = thalweg(*RUN[:7], "mine", "--once", cwd=place)
    assert (code, out) == (2, "")
    assert "mine" in one_message(err)
    assert [p.name for p in (place / "mine").iterdir()] == ["letter.txt"]


def test_a_source_that_is_not_there_is_named(tmp_path, thalweg):
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1))]) for n in "ab"}
    feeds["a"].write(tmp_path / "data" / "a")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k")
    code, out, err = thalweg(
        "run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", cwd=tmp_path
    )
    assert (code, out) == (2, ""), err
    assert "data/b" in one_message(err)


def test_tuples_that_rows_can_not_order_are_named(tmp_path, thalweg):
    columns = {"ts": "timestamp", "k": "int", "seq": "int"}
    feeds = {
        n: Feed(
            columns, [rows("ts k seq", (1, 1, 41), (1, 2, 42)), rows("ts k seq", (1, 3, 42))], order=("seq",)
        )
        for n in "ab"
    }
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a [ROWS 3], b [RANGE 1 SECOND] WHERE a.k = b.k")
    run = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")
    code, out, err = thalweg(*run, cwd=tmp_path)
    assert (code, out) == (2, ""), err
    message = one_message(err)
    assert "1970-01-01T00:00:01" in message
    assert "42" in message
    assert "stream a" in message


def test_data_that_an_expression_does_not_fit_is_told_in_a_line(tmp_path, thalweg):
    columns = {"ts": "timestamp", "k": "int", "word": "string"}
    feeds = {n: Feed(columns, [rows("ts k word", (1, 1, "7"), (2, 1, "seven"))]) for n in "ab"}
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text("SELECT a.k FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.word = b.k")
    code, out, err = thalweg(
        "run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", cwd=tmp_path
    )
    assert (code, out) == (2, ""), err
    message = one_message(err)
    assert message.startswith("thalweg: q.sql: [CAST_INVALID_INPUT] The value 'seven' of the type")
    assert message.endswith("use `try_cast` to tolerate malformed input and return NULL instead")


def cut_short(file, table):
    pq.write_table(table, file)
    file.write_bytes(file.read_bytes()[:-100])


def with_text(file, table):
    pq.write_table(table.set_column(1, "k", table["k"].cast(pa.string())), file)


def with_nanoseconds(file, table):
    pq.write_table(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("ns", "UTC"))), file)


@pytest.mark.parametrize(
    ("written_badly", "message"),
    [
        (
            cut_short,
            "can't be read: it is cut short, or not a Parquet file; replace it with a readable file",
        ),
        (with_text, "column k is string in the file and int in the catalog; write the file anew"),
        (with_nanoseconds, "column ts is timestamp[ns, tz=UTC] in the file and timestamp in the catalog"),
    ],
)
def test_a_file_that_does_not_fit_is_named_and_may_be_mended(tmp_path, thalweg, written_badly, message):
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1), (2, 2))]) for n in "ab"}
    written(feeds, tmp_path / "some data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds, "some data"))
    sql = "SELECT a.k, b.ts FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k"
    (tmp_path / "q.sql").write_text(sql)
    run = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")
    file = tmp_path / "some data" / "b" / "00000.parquet"
    table = pq.ParquetFile(file).read()
    written_badly(file, table)
    code, out, err = thalweg(*run, cwd=tmp_path)
    assert (code, out) == (2, ""), err
    assert f"{file}: {message}" in one_message(err)
    pq.write_table(table, file)
    code, out, err = thalweg(*run, cwd=tmp_path)
    assert code == 0, err
    assert results_of(tmp_path / "out") == expected(sql, feeds)


@pytest.mark.long
def test_an_unknown_function_is_told_with_its_file(tmp_path, thalweg):
    feeds = {n: Feed({"ts": "timestamp", "k": "int"}, [rows("ts k", (1, 1))]) for n in "ab"}
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text(
        "SELECT nosuchf(a.k) AS x FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k"
    )
    code, out, err = thalweg(
        "run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", cwd=tmp_path
    )
    assert (code, out) == (2, ""), err
    assert one_message(err).startswith("thalweg: q.sql: nosuchf(")


@pytest.mark.parametrize("told", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_run_that_is_told_to_stop_goes_on_later(tmp_path, command, start, told):
    columns = {"ts": "timestamp", "k": "int", "id": "bigint"}
    feeds = {
        n: Feed(columns, random_batches(seed, 12, 8, columns, spread=60), lateness=15 * SECOND, order=("id",))
        for seed, n in enumerate("abc")
    }
    sql = (
        "SELECT a.id AS x, b.id AS y, c.id AS z, result_time FROM a [ROWS 6], "
        "b [RANGE 6 SECONDS SLIDE 2 SECONDS], c [RANGE 6 SECONDS] "
        "WHERE a.k = b.k AND b.k = c.k AND a.id <= b.id"
    )
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text(sql)
    run = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--once", "--json")
    process = start(*run, cwd=tmp_path)
    try:
        metrics = tmp_path / "out" / "metrics.json"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if metrics.exists() and json.loads(metrics.read_text())["batches"] >= 2:
                break
            time.sleep(0.05)
        process.send_signal(told)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (128 + told, "thalweg: stopped; the same command continues\n")
    stopped = json.loads(out)
    assert stopped["complete"] is False
    assert 2 <= stopped["batches"] < 12
    code, out, err = command(*run, cwd=tmp_path)
    assert code == 0, err
    done = json.loads(out)
    assert done["complete"] is True
    wanted = expected(sql, feeds)
    assert wanted
    assert results_of(tmp_path / "out") == wanted
    assert done["input_rows"] == {n: len(f.rows) for n, f in feeds.items()}
    assert done["late_rows"] == {n: len(f.split()[1]) for n, f in feeds.items()}
    assert done["output_rows"] == {"q": sum(wanted.values())}
    code, out, err = command(
        "verify", "q.sql", "--catalog", "catalog.yaml", "--out", "out", "--json", cwd=tmp_path
    )
    assert code == 0, err
    assert json.loads(out)["same"] is True


@pytest.fixture
def ended(tmp_path, thalweg):
    """A run with --once whose power was cut when the end of its streams had been told; more came later."""
    columns = {"ts": "timestamp", "k": "int", "id": "bigint"}
    feeds = {
        n: Feed(columns, random_batches(seed, 3, 8, columns, spread=60), lateness=15 * SECOND)
        for seed, n in enumerate("ab")
    }
    sql = (
        "SELECT a.id AS x, b.id AS y, result_time "
        "FROM a [RANGE 9 SECONDS SLIDE 2 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
    )
    written(feeds, tmp_path / "data")
    (tmp_path / "catalog.yaml").write_text(catalog_yaml(feeds))
    (tmp_path / "q.sql").write_text(sql)
    run = ("run", "q.sql", "--catalog", "catalog.yaml", "--out", "out")
    end = SparkHost.end

    def cut(host):
        end(host)
        raise RuntimeError("the power is cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkHost, "end", cut)
        code, _, err = thalweg(*run, "--once", "--json", cwd=tmp_path)
    assert (code, "the power is cut" in err) == (1, True)
    for n, feed in feeds.items():
        more = [{"ts": (90 + i) * SECOND, "k": i % 4, "id": 100 + i} for i in range(8)]
        pq.write_table(feed.table(more), tmp_path / "data" / n / "more.parquet")
    return run, feeds, sql


def test_once_completes_what_it_has_ended_though_more_has_come(tmp_path, thalweg, ended):
    run, feeds, sql = ended
    code, out, err = thalweg(*run, "--once", "--json", cwd=tmp_path)
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["complete"] is True
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in feeds.items()}
    wanted = expected(sql, feeds)
    assert wanted
    assert results_of(tmp_path / "out") == wanted


def test_streams_that_have_ended_do_not_go_on_live(tmp_path, thalweg, ended):
    before = files_of(tmp_path / "out" / "results")
    code, out, err = thalweg(*ended[0], "--json", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "--once has ended the streams of out; add --once" in one_message(err)
    assert files_of(tmp_path / "out" / "results") == before


def test_what_was_counted_is_written_down_for_those_who_watch(complete, place):
    metrics, seen = json.loads(complete[0]), RunFolder(place / "out").read()
    last = seen.last
    assert (seen.status.state, seen.status.starts) == ("complete", 1)
    assert last.batch + 1 == metrics["batches"] == sum(last.durations.counts)
    assert last.read == metrics["input_rows"]
    assert {q: n for q, n in last.results.items() if n} == {
        q: n for q, n in metrics["output_rows"].items() if n
    }
    assert {s: sum(why.values()) for s, why in last.late.items()} == metrics["late_rows"]
    assert sum(last.latencies.counts) == pytest.approx(sum(last.results.values()))
    joins = [o for o in seen.operators.running if o.kind == "join"]
    assert {o.query for o in joins} == {"q1", "q2", "nothing"}
    names = {o.name for o in seen.operators.running}
    for join in joins:
        assert join.reads and {read.operator for read in join.reads} <= names
        assert last.work[join.name][0] > 0  # tuples came in
    assert sum(last.work[o.name][1] for o in joins if o.gives_results) >= sum(last.results.values())
    assert seen.asked is not None and seen.asked.once


class SilentQuery:
    """A query of Spark that ends without an error, whatever its batch has raised."""

    def __init__(self, meanwhile):
        self.meanwhile = meanwhile

    def foreachBatch(self, sink):
        self.sink = sink
        return self

    def option(self, *_):
        return self

    def trigger(self, **_):
        return self

    def start(self):
        try:
            self.sink(None, 0)
        except Exception:
            self.meanwhile()
        return self

    def awaitTermination(self, _):
        return True

    def stop(self):
        pass


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("error", [RuntimeError("of the batch"), _Changed()])
def test_a_failed_batch_is_told_also_if_spark_does_not(error, stopped):
    """Spark can end a query without an error where it can't read the one that the batch has raised."""
    stop = _Stop()

    def renewed(_):
        raise error

    flow = SimpleNamespace(writeStream=SilentQuery(stop.set if stopped else lambda: None))
    options = SimpleNamespace(once=True, memory=None)
    run = _Run(options, None, SimpleNamespace(checkpoint="checkpoint"), None, stop, 0.0, {})
    run.late = run.output = None
    run.plans = SimpleNamespace(renewed=renewed)
    run.host = SimpleNamespace(flow=lambda *_: flow, forget=lambda: None, results=())
    if stopped:
        assert run._stream_queries({}) is False
    elif isinstance(error, _Changed):
        assert run._stream_queries({}) is None
        assert run.failed is None
    else:
        with pytest.raises(RuntimeError, match="of the batch"):
            run._stream_queries({})

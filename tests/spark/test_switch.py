"""Plans take over from each other while a run goes on, back and forth: the results are those of DuckDB."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import environment
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import make_plan

from .feed import SECOND, Feed, catalog_yaml, expected, results_of, written
from .places import AT, COLUMNS, STAR, Place, batches, stats
from .switching import POINTS, Switching
from .test_kill import batches_of, below, kill

APART = 100 * SECOND
"""From phase to phase, in event time: far more than windows and lateness."""

PLANS = {
    "tree": PlanOptions("optimal", Objective("bytes"), None, {}),
    "one-site": PlanOptions("simple", Objective("bytes"), None, {}),
    "partitioned": PlanOptions("pmjoin", Objective("bytes"), None, {}),
    "linear": None,
}


def phases(rng, count, each, often, apart):
    """Batches in phases; some rows of a later phase belong to the one before, and are late."""
    found = []
    for phase in range(count):
        for n, batch in enumerate(batches(rng, each, 100 // each, 20.0, often)):
            for row in batch:
                row["id"] += 1000 * phase
                if row["ts"] is not None:
                    row["ts"] += phase * apart
                    if phase and n == 0 and rng.random() < 0.05:
                        row["ts"] -= apart + 10 * SECOND
            found.append(batch)
    return found


WIDE = """SELECT a.id AS w, b.id AS x, c.id AS y, d.id AS z, b.v, d.word, result_time
FROM c [RANGE 6 SECONDS], a [RANGE 5 SECONDS], d [RANGE 4 SECONDS], b [RANGE 3 SECONDS]
WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND c.v <> 5 AND a.v + d.v < 14
"""
QUERIES = {"q": STAR, "wide": WIDE}


def switched(root, kinds, *, each=2, seed=0, apart=APART):
    """A place whose run goes by another plan in each phase, and the arguments of the run.

    A kind is one of `PLANS`, after the names of the queries if that is not just q.
    """
    rng = random.Random(seed)
    often = {name: range(3 * n, 3 * n + 3) for n, name in enumerate("abcd")}
    feeds = {
        name: Feed(
            {**COLUMNS, "k": "int"} if name == "b" else COLUMNS,
            phases(rng, len(kinds), each, often[name], apart),
            lateness=6 * SECOND,
            extra={"stats": stats(often[name])},
        )
        for name in "abcd"
    }
    written(feeds, root / "data")
    (root / "catalog.yaml").write_text(catalog_yaml(feeds, at=AT))
    for name, text in QUERIES.items():
        (root / f"{name}.sql").write_text(text)
    for n, (names, kind) in enumerate(map(asked, kinds)):
        made = Place(root, feeds, {name: QUERIES[name] for name in names})
        catalog, queries = made.read()
        if (options := PLANS[kind]) is None:
            made.by_sequences(f"plan{n}.json", seed=seed + n)
        else:
            make_plan(queries, catalog, options).save(root / f"plan{n}.json")
    changes = {str(each * n - 1): f"plan{n}.json" for n in range(1, len(kinds))}
    (root / "changes.json").write_text(json.dumps(changes))
    made = Place(root, feeds, {name: QUERIES[name] for name in asked(kinds[0])[0]})
    return made, made.run("--plan", "plan0.json")


def asked(kind):
    """The queries of a phase, and how they are planned.

    >>> asked("tree"), asked("q wide tree")
    ((('q',), 'tree'), (('q', 'wide'), 'tree'))
    """
    *names, plan = kind.split()
    return tuple(names or ["q"]), plan


def phase_of(row):
    """The phase of a result by its time, its last column; some rows are a while ahead of their phase."""
    return round(row[-1].timestamp() * SECOND + APART // 2) // APART


def check(made, metrics, kinds):
    """All results once, all rows counted, and each program has taken over."""
    out = made.root / "out"
    assert metrics["complete"] is True
    assert metrics["input_rows"] == {n: len(f.rows) for n, f in made.feeds.items()}
    assert metrics["late_rows"] == {n: len(f.split()[1]) for n, f in made.feeds.items()}
    assert all(metrics["late_rows"].values())
    names = dict.fromkeys(name for kind in kinds for name in asked(kind)[0])
    assert metrics["output_rows"].keys() == names.keys()
    for name in names:
        mine = {n for n, kind in enumerate(kinds) if name in asked(kind)[0]}
        wanted = expected(QUERIES[name], made.feeds)
        wanted = Counter({row: n for row, n in wanted.items() if phase_of(row) in mine})
        assert {phase_of(row) for row in wanted} == mine  # each phase has results
        found = results_of(out, name)
        assert found == wanted, f"{name}: missing {len(wanted - found)}, extra {len(found - wanted)}"
        assert metrics["output_rows"][name] == sum(wanted.values())
    changes = json.loads((made.root / "changes.json").read_text())
    programs = sorted(int(p.stem) for p in (out / "_thalweg" / "programs").glob("[0-9]" * 9 + ".json"))
    assert programs == [0, *(int(batch) + 1 for batch in changes)]
    edges = [
        e
        for n in range(len(kinds))
        for q in json.loads((made.root / f"plan{n}.json").read_text())["queries"]
        for e in q["deployment"]["edges"]
    ]
    ways = {(e["from_site"], e["to_site"]) for e in edges if e["from_site"] != e["to_site"]}
    assert {(s["from"], s["to"]) for s in metrics["shipped"]} == ways


def test_back_and_forth(tmp_path, thalweg, monkeypatch):
    kinds = ("tree", "linear", "partitioned", "tree")
    made, arguments = switched(tmp_path, kinds)
    monkeypatch.setattr("thalweg.spark.run._Run", Switching)
    code, out, err = thalweg(*arguments, cwd=tmp_path)
    assert (code, err) == (0, ""), err
    check(made, json.loads(out), kinds)


def test_other_queries(tmp_path, thalweg, monkeypatch):
    """Other columns and filters, a further query, one fewer: Spark goes on with another query of its own."""
    kinds = ("tree", "wide linear", "q wide tree", "tree")
    made, arguments = switched(tmp_path, kinds)
    monkeypatch.setattr("thalweg.spark.run._Run", Switching)
    Switching.pauses.clear()
    code, out, err = thalweg(*arguments, cwd=tmp_path)
    assert (code, err) == (0, ""), err
    check(made, json.loads(out), kinds)
    assert len(Switching.pauses) == 3


# In processes of their own, which are killed


def started(arguments, root):
    with (root / "errors").open("w") as errors, (root / "said").open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.switching", *map(str, arguments)],
            cwd=root,
            env={**environment(), "PYTHONPATH": _paths()},
            stdout=said,
            stderr=errors,
        )


def _paths():
    """This checkout, so that the program finds its module from another folder."""
    here = str(Path(__file__).parents[2])
    return ":".join(filter(None, (environment().get("PYTHONPATH", ""), here)))


def finished(process):
    """Wait for the end of a run and of all that it has started; the exit status."""
    children = []
    with suppress(psutil.Error):
        children = psutil.Process(process.pid).children(recursive=True)
    process.wait()
    psutil.wait_procs(children)
    return process.returncode


def complete(arguments, root):
    process = started(arguments, root)
    assert finished(process) == 0, (root / "errors").read_text()
    return json.loads((root / "said").read_text())


OTHER = ("tree", "wide linear", "q wide tree", "wide partitioned", "linear")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_change_in_each_batch(tmp_path, seed):
    """Parcels of several programs are on their way at the same time."""
    rng = random.Random(seed)
    kinds = [rng.choice(list(PLANS)) for _ in range(8)]
    made, arguments = switched(tmp_path, kinds, each=1, seed=seed)
    check(made, complete(arguments, tmp_path), kinds)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point_of_a_change(tmp_path, point):
    made, arguments = switched(tmp_path, OTHER, each=1 + POINTS.index(point) % 2, seed=POINTS.index(point))
    changes = json.loads((tmp_path / "changes.json").read_text())
    for batch in changes:
        (tmp_path / "die").write_text(f"{batch} {point}")
        assert finished(started(arguments, tmp_path)) == -9, (tmp_path / "errors").read_text()
        assert not (tmp_path / "die").exists()
    check(made, complete(arguments, tmp_path), OTHER)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment(tmp_path, seed):
    rng = random.Random(seed)
    names = ("", "q wide ", "wide ")
    kinds = ["tree", *(rng.choice(names) + rng.choice(list(PLANS)) for _ in range(5))]
    made, arguments = switched(tmp_path, kinds, seed=10 + seed)
    for what in (rng.choice(("driver", "jvm", "worker")) for _ in range(6)):
        process = started(arguments, tmp_path)
        goal = batches_of(tmp_path) + rng.randrange(1, 4)
        while process.poll() is None and batches_of(tmp_path) < goal:
            time.sleep(0.02)
        time.sleep(rng.random())  # at any moment of the batch
        while process.poll() is None and not kill(process, what, rng):
            time.sleep(0.02)
        jvm, workers = below(process)
        finished(process)
        psutil.wait_procs([p for p in (jvm, *workers) if p is not None])
    check(made, complete(arguments, tmp_path), kinds)

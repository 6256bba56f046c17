"""Folders of runs that grow as they would with Spark, a batch at a time."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

from thalweg import live
from thalweg.adapt.history import History, Record, plan_file
from thalweg.catalog import load
from thalweg.cost.price import shipments
from thalweg.live.asked import Asked
from thalweg.live.operators import Operators, Read, Running, Window
from thalweg.live.series import Point, Series
from thalweg.live.status import Diary
from thalweg.plan.operators import Join
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import make_plan
from thalweg.query import parse

ROUTERS = Path(__file__).parents[2] / "docs/examples/routers.yaml"
ROUTERS_SQL = (ROUTERS.with_suffix(".sql")).read_text()


def limited(folder: Path) -> Path:
    """The catalog of three routers, with links that carry 30 kbit/s."""
    path = folder / "limited.yaml"
    path.write_text(f"{ROUTERS.read_text()}\nlinks: {{default: {{latency_ms: 10, mbps: 0.03}}}}\n")
    return path


def large(folder: Path, sites: int = 20) -> tuple[Path, str]:
    """A catalog with many sites, a stream at each of five of them, and a query over these."""
    text = [f"sites: {{{', '.join(f's{n}: {{}}' for n in range(sites))}}}"]
    text += ["links:", "  default: {latency_ms: 20, mbps: 1}", "streams:"]
    for n in range(5):
        text += [
            f"  r{n}:",
            f"    site: s{4 * n}",
            "    time: ts",
            "    schema: {ts: timestamp, k: long}",
            f"    source: {{format: parquet, options: {{path: data/r{n}}}}}",
            f"    stats: {{rate: {10 * (n + 1)}, distinct: {{k: 50}}}}",
        ]
    path = folder / "large.yaml"
    path.write_text("\n".join(text) + "\n")
    windows = ", ".join(f"r{n} [RANGE 5 SECONDS]" for n in range(5))
    return path, f"SELECT r0.k FROM {windows} WHERE " + " AND ".join(f"r{n}.k = r{n + 1}.k" for n in range(4))


class Growing:
    """A run: `step` adds a batch, `change` begins and ends a change of plan, `end` ends the run."""

    def __init__(
        self, out: Path, catalog: Path = ROUTERS, sql: str = ROUTERS_SQL, planner: str = "simple"
    ) -> None:
        self.out, self.catalog = out, load(catalog)
        self.query = parse(sql, name="q", schemas=self.catalog.schemas, times=self.catalog.times)
        (out / live.FOLDER).mkdir(parents=True)
        self.at = time.time()
        Asked(self.catalog, PlanOptions(), once=False).save(live.asked_file(out))
        self.central = make_plan([self.query], self.catalog, PlanOptions("simple")).total
        self.diary = Diary.begin(live.status_file(out))
        self.series = Series(out / live.FOLDER)
        self.history = History(out / "_thalweg/changes.json")
        self.changes = 0
        self.point = Point(-1, self.at, 0.0)
        self._deploy(planner, 0)

    def _deploy(self, planner: str, change: int, extra: int = 0) -> None:
        self.plan = make_plan([self.query], self.catalog, PlanOptions(planner))
        path = self.out / plan_file(change)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.plan.document()))
        self.running = self._running(change)
        Operators(change, change, 0, tuple(self.running)).save(live.operators_file(self.out))

    def _running(self, change: int) -> list[Running]:
        prefix, made = f"{change}:" if change else "", []
        deployment = self.plan.queries[0].deployment
        names = {
            o.id: getattr(o, "stream", "") or f"{prefix}q.{o.id}"
            for o in deployment.operators
            if o.kind not in ("split", "sink")
        }

        def reads(inputs: tuple[str, ...]) -> list[str]:
            found = []
            for one in inputs:
                found += [names[one]] if one in names else reads(deployment.operator(one).inputs)
            return found

        site = {names[o.id]: o.site for o in deployment.operators if o.id in names}
        for o in deployment.operators:
            if o.id not in names:
                continue
            of = tuple(Read(r, site[r], "tuples") for r in dict.fromkeys(reads(o.inputs)))
            windows = tuple(Window(s, 500_000) for s in o.streams) if isinstance(o, Join) else ()
            source = o.kind == "source"
            made.append(
                Running(
                    names[o.id], o.kind, o.site, "" if source else "q", "" if source else o.id,
                    o.stream if source else "", 1, 2, of, windows, not source,
                )
            )  # fmt: skip
        return made

    def many(self, n: int) -> None:
        """So many operators, spread over the sites."""
        sites = list(self.catalog.sites)
        more = [
            Running(
                f"q.more{i}",
                "join",
                sites[i % len(sites)],
                "q",
                f"more{i}",
                "",
                1,
                2,
                (),
                (Window("a", 10**6),),
            )
            for i in range(n - len(self.running))
        ]
        self.running += more
        Operators(0, 0, 0, tuple(self.running)).save(live.operators_file(self.out))

    def back(self, batches: int) -> None:
        """Batches of the last seconds, one each second."""
        self.at = time.time() - batches
        self.diary.status = replace(self.diary.status, started=self.at, first_start=self.at)
        self.diary.status.save(self.diary.path)
        for _ in range(batches):
            self.step(at=self.at + 1)

    def step(self, *, at: float | None = None, late: int = 1, seconds: float = 0.5, silent: str = "") -> None:
        """One more batch."""
        before, self.at = self.point, time.time() if at is None else at
        n = before.batch + 1
        wave = 100 + 40 * ((n // 5) % 3)
        streams = [s for s in self.catalog.streams if s != silent]
        read = {**before.read, **{s: before.read.get(s, 0) + wave * (i + 1) for i, s in enumerate(streams)}}
        sent = dict(before.sent)
        edges = shipments(self.plan.queries[0].deployment)
        weights = sum(i % 4 + 1 for i in range(len(edges)))
        total = 60 * wave * max(0.35, min(1.0, self.plan.total / self.central))
        for i, edge in enumerate(edges):
            way = f"{edge.source_site}-{edge.target_site}"
            old = sent.get(way, [0, 0, 0])
            payload = round(total * (i % 4 + 1) / weights)
            sent[way] = [old[0] + wave, old[1] + payload, old[2] + payload * 2 // 3]
        newest = {**before.newest, **{s: int((self.at - 0.2) * 1e6) for s in streams}}
        first = next(iter(self.catalog.streams))
        lates = {first: {"late": before.late.get(first, {}).get("late", 0) + late}}
        bound = int((self.at - 1) * 1e6)
        work = {
            o.name: (100 * (n + 1) * (i + 1), 90 * (n + 1), 500 + wave, 4096 * (i + 1), 0, bound)
            for i, o in enumerate(self.running)
        }
        self.point = Point(
            n, round(self.at, 3), seconds, read, {"q": before.results.get("q", 0) + 10 * wave}, lates, sent,
            before.central + 60 * wave, newest, {}, before.durations.plus(seconds),
            before.latencies.plus(0.7, 9).plus(1.4, 1), 0.7, 1.4 + n % 3 / 10,
            (500 + wave, 4096 * len(self.running), 0), work, dict.fromkeys(sent, 0.3), self.changes,
        )  # fmt: skip
        self.series.add(self.point)
        self.diary.running()

    def change(self, planner: str) -> None:
        """Another plan has taken over."""
        number = self.point.batch + 1
        cost = self.plan.total
        self._deploy(planner, number)
        self.changes += 1
        self.history.add(
            Record(
                self.at, None, ("s1 rate: 100, now 20",), "saves 60% of the cost", cost, self.plan.total,
                cost, 5000.0, "done", change=number, bytes_moved=4800, seconds=1.5,
            )
        )  # fmt: skip
        self.diary.say("info", "changes its plan: saves 60% of the cost")

    def end(self, outcome: str, text: str = "") -> None:
        self.diary.end(outcome, text)

    def vanish(self) -> None:
        """The process is gone, as after a kill."""
        pid, started, where = self.diary.status.process.split()
        assert int(pid) == os.getpid()
        self.diary.status = replace(self.diary.status, process=f"{pid} {int(started) - 1} {where}")
        self.diary.status.save(self.diary.path)

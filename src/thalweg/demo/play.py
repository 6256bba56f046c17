"""Plays the demo: `thalweg run` joins the streams while packets are replayed into them.

In the first act `thalweg stats` measures the packets that are there, and the live run uses the plan that
`auto` chooses by that. Then the central plan joins the same packets. In the second act traffic shifts from
one router to another. A live run adapts its plan, and then the plan that it began with joins the same
packets. A live run is stopped when all results are out. Its folder is that of any stopped run, so it can be
resumed. `thalweg verify` recomputes the results of all four with DuckDB.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from thalweg.adapt.history import History
from thalweg.demo import commands, shift
from thalweg.demo.commands import DemoError, Series
from thalweg.demo.figures import CENTRAL, LIVE, Figures, Ran, read_figures
from thalweg.demo.packets import QUERY, SHIFTS, Traffic
from thalweg.demo.picture import draw
from thalweg.demo.replay import Replay
from thalweg.demo.shift import ADAPTING, STAYING, Course, Shift
from thalweg.errors import UserError

MARKER = ".thalweg-demo"
PICTURE = "demo.png"
_POLL_S = 0.1
_QUIET_S = 1.5


@dataclass(frozen=True)
class Moment:
    """Progress: packets sent, packets read, results, and the payload shipped between sites.

    `central` is the payload so far if all packets were shipped to one site.
    """

    sent: int
    read: int
    results: int
    seconds: float
    shipped: int = 0
    central: int = 0


class Audience(Protocol):
    """Shows the progress of the demo."""

    def step(self, text: str) -> None: ...
    def moment(self, moment: Moment) -> None: ...


@dataclass(frozen=True)
class Shown:
    """What the demo has shown, act by act."""

    first: Figures
    second: Shift

    @property
    def verified(self) -> bool:
        return self.first.verified and self.second.verified

    def to_json(self) -> dict[str, Any]:
        return {**self.first.to_json(), "shift": self.second.to_json(), "verified": self.verified}


def play(out: Path, first: Traffic, second: Traffic, audience: Audience, port: int | None = None) -> Shown:
    """Plays the demo in a folder, which is emptied first. The picture in it is named PICTURE.

    With a port, the live runs have a page there.
    """
    home = out.absolute()
    if port is not None:
        audience.step(f"the live runs are shown at http://127.0.0.1:{port}/")
    with _claimed(home):
        with commands.series(home) as series:
            with _stage(home, "", first, series, audience, port) as stage:
                begun = _first_act(stage)
            with _stage(home, shift.FOLDER, second, series, audience, port) as stage:
                courses = _second_act(stage)
                origin_us = stage.replay.origin_us
            series.end()
        audience.step("recomputing all results with DuckDB")
        live, central, adapting, staying = (
            Ran.read_from(home / folder / out, _verify(home, folder, out))
            for folder, out in (
                ("", LIVE),
                ("", CENTRAL),
                (shift.FOLDER, ADAPTING),
                (shift.FOLDER, STAYING),
            )
        )
        changes = shift.read_changes(home / shift.FOLDER / ADAPTING, second, origin_us)
        shown = Shown(
            read_figures(home, live, central, begun), Shift(second, adapting, staying, *courses, changes)
        )
        draw(home, shown.first, shown.second, first.window_ms / 1000, home / PICTURE)
        return shown


@dataclass(frozen=True)
class _Stage:
    """An act: packets, catalog, query and runs are in the folder `name` of the demo's."""

    home: Path
    name: str
    replay: Replay
    series: Series
    audience: Audience
    port: int | None = None

    def run(self, out: str, *arguments: str) -> _Run:
        """Begins a run, which `_Run.wait_until` then watches."""
        live = self.port is not None and "--once" not in arguments
        shown = ("--page", str(self.port)) if live else ()
        self.series.say("run", *_given(self.name, out), *arguments, *shown)
        return _Run(self.home / self.name / out, self.replay, self.series, self.audience)


@contextmanager
def _stage(
    home: Path, name: str, traffic: Traffic, series: Series, audience: Audience, port: int | None
) -> Iterator[_Stage]:
    """An act begins: earlier packets are there, and their rates in the catalog."""
    folder = home / name
    folder.mkdir(exist_ok=True)
    (folder / "catalog.yaml").write_text(traffic.catalog())
    (folder / f"{QUERY}.sql").write_text(traffic.query())
    replay = Replay(traffic, folder / "packets")
    replay.earlier()
    series.say("stats", *_given(name), "--write")
    try:
        yield _Stage(home, name, replay, series, audience, port)
    finally:
        replay.stop()


def _first_act(stage: _Stage) -> float:
    """Joins live, then by the central plan. Returns when the timed part of the replay began."""
    stage.audience.step("starting Spark with one site for each router, and joining the first packets")
    # The time of a result file says when its results could be read: no merging.
    run = stage.run(LIVE, "--no-compact", "--adapt", "off")
    run.wait_until(lambda: run.read > 0)
    stage.audience.step("replaying the packets of three routers and joining them live across sites")
    stage.replay.start()
    run.wait_until(run.is_over)
    stage.audience.step("joining the same packets with the central plan, all at one site")
    stage.series.stop_command()
    central = stage.run(CENTRAL, "--once", "--planner", "simple", "--adapt", "off")
    central.wait_until(central.is_complete)
    return stage.replay.begun or 0.0


def _second_act(stage: _Stage) -> tuple[Course, Course]:
    """Joins live by a plan that adapts, then by the plan that it began with."""
    stage.audience.step("second act: joining the first packets of other streams by a plan that adapts")
    adapting = stage.run(ADAPTING, "--adapt", "central")
    adapting.wait_until(lambda: adapting.read > 0)
    stage.audience.step("replaying the packets of three routers")
    stage.replay.start()
    adapting.wait_until(lambda: stage.replay.shifted)
    stage.audience.step(f"traffic shifts from {SHIFTS[0]} to {SHIFTS[1]}")
    told = adapting.changes

    def tell_until_over() -> bool:
        for reason in adapting.changes[len(told) :]:
            stage.audience.step(f"the plan has changed: {reason}")
            told.append(reason)
        return adapting.is_over()

    adapting.wait_until(tell_until_over)
    stage.audience.step("joining the same packets by the first plan, which stays")
    stage.series.stop_command()
    first_plan = f"{stage.name}/{ADAPTING}/plan.json"
    staying = stage.run(STAYING, "--once", "--plan", first_plan, "--adapt", "off")
    staying.wait_until(staying.is_complete)
    return adapting.course, staying.course


@dataclass
class _Run:
    """A run, observed through its folder. `samples` are packets read and bytes sent between sites so far."""

    folder: Path
    replay: Replay
    series: Series
    audience: Audience
    samples: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    quiet_since: tuple[str, float] | None = None

    def metrics(self) -> Mapping[str, Any]:
        try:
            return dict(json.loads((self.folder / "metrics.json").read_text()))
        except FileNotFoundError:
            return {"input_rows": {}, "output_rows": {}, "shipped": [], "complete": False}

    def is_over(self) -> bool:
        """Whether a live run has read and delivered everything."""
        return self.replay.done.is_set() and self.read >= self.sent and self.is_quiet()

    def is_complete(self) -> bool:
        return bool(self.metrics()["complete"])

    def is_quiet(self) -> bool:
        """Whether no batch has run for a while, so that nothing is in transit between sites."""
        checkpoint = self.folder / "_thalweg" / "checkpoint"
        begun, done = (
            max((p.name for p in (checkpoint / part).glob("[0-9]*")), key=int, default="")
            for part in ("offsets", "commits")
        )
        now = time.monotonic()
        if begun != done or self.quiet_since is None or self.quiet_since[0] != done:
            self.quiet_since = (done, now)
        return now - self.quiet_since[1] >= _QUIET_S

    @property
    def sent(self) -> int:
        return sum(self.replay.sent.values())

    @property
    def read(self) -> int:
        return sum(self.metrics()["input_rows"].values())

    @property
    def changes(self) -> list[str]:
        """The reasons for which the run has changed its plan."""
        records = History.load(self.folder / "_thalweg" / "changes.json").records
        return [record.reason for record in records if record.outcome == "done"]

    @property
    def course(self) -> Course:
        return Course.of(self.samples, self.replay.traffic)

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Shows progress until the condition holds. Fails if the run ends or makes no progress."""
        begun = moved = time.monotonic()
        last: tuple[int, int] | None = None
        over = False
        while not over:
            over = reached()
            if self.replay.error is not None:
                raise DemoError(f"the replay failed: {self.replay.error}")
            self.series.check()
            now = time.monotonic()
            moment = self._moment(now - begun)
            if (moment.sent, moment.read) != last:
                last, moved = (moment.sent, moment.read), now
            if now - moved > commands.PATIENCE_S:
                raise DemoError(commands.why(self.series.home, f"no progress in {commands.PATIENCE_S:.0f} s"))
            self.audience.moment(moment)
            time.sleep(_POLL_S)

    def _moment(self, seconds: float) -> Moment:
        metrics = self.metrics()
        read, results = (sum(metrics[part].values()) for part in ("input_rows", "output_rows"))
        self.samples.append((read, sum(way["bytes"] for way in metrics["shipped"])))
        shipped = sum(way["payload_bytes"] for way in metrics["shipped"])
        return Moment(self.sent, read, results, seconds, shipped, metrics.get("central_payload_bytes", 0))


def _given(folder: str, out: str = "") -> tuple[str, ...]:
    """The arguments that say what to run in which folder of the demo."""
    at = Path(folder)
    given = str(at / f"{QUERY}.sql"), "--catalog", str(at / "catalog.yaml")
    return (*given, "--out", str(at / out)) if out else given


def _verify(home: Path, folder: str, out: str) -> Mapping[str, Any]:
    """DuckDB's verdict on the results of a run."""
    return commands.answer(home, "verify", *_given(folder, out), "--json")


@contextmanager
def _claimed(home: Path) -> Iterator[None]:
    """Locks the folder and removes an earlier demo. A folder with other files is refused."""
    marker = home / MARKER
    if home.exists() and not home.is_dir():
        raise UserError("this is not a folder", where=str(home), remedy="give --out a new name")
    if home.is_dir() and any(home.iterdir()) and not marker.exists():
        raise UserError(
            "this folder holds files that are not from a demo",
            where=str(home),
            remedy="give --out a new or empty folder",
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = marker.open("w")
    except OSError as error:
        raise UserError(f"can't use the folder: {error.strerror}", where=str(home)) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                "another demo is using this folder", where=str(home), remedy="give --out another folder"
            ) from None
        for entry in home.iterdir():
            if entry.name == MARKER:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield

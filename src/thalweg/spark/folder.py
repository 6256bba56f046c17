"""The output folder of a run: who owns it, what is in it, and how batches get there exactly once."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thalweg import private
from thalweg.adapt.history import plan_file
from thalweg.catalog.model import Catalog
from thalweg.errors import UserError
from thalweg.exchange.disk import NEW_FOLDER, damaged, failed
from thalweg.files import remove_all, unusable, write_text
from thalweg.lock import Lock, claim
from thalweg.operators.program import format_of
from thalweg.operators.state import FORMAT
from thalweg.plan.options import Adapt, RunOptions
from thalweg.processes import Process
from thalweg.spark.result_files import DraftFiles
from thalweg.spark.sinks.parquet import ParquetSink
from thalweg.spark.tally import Tally
from thalweg.storage import Location, RemotePath


class Folder:
    """DIR of `thalweg run`. What concerns only the run itself is under DIR/_thalweg."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self.own = path / "_thalweg"
        self.checkpoint = self.own / "checkpoint"
        self.spill = self.own / "spill"
        self.metrics_file = path / "metrics.json"
        self._lock: Lock | None = None
        self._beside: tempfile.TemporaryDirectory[str] | None = None

    def open(self, options: RunOptions, partitions: int) -> dict[str, Any]:
        """Claim the folder for this run; returns what was settled when it was first used."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is not a folder", where="--out", remedy="name a new folder")
        if self.path.is_dir() and any(self.path.iterdir()) and not self.own.is_dir():
            raise UserError(
                f"{self.path} holds files that are not from a run of thalweg",
                where="--out",
                remedy="name a new or empty folder",
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.own.mkdir(mode=0o700, exist_ok=True)
            if isinstance(self.own, Path) and not private.is_private(self.own):
                _make_private(self.own)
        except OSError as error:
            raise unusable(self.path, error, "can't be made") from None
        self._lock = claim(self.own / "lock", self.path)
        self._await_last()
        asked = _identity(options)
        self._check_version()
        job = self._read(
            self.own / "job.json", {"queries": dict, "catalog": dict, "partitions": int, "run": str}
        )
        if job is not None and not self.begun and any(job.get(part) != of for part, of in asked.items()):
            self._forget()  # it was refused or ended before it had read anything
            job = None
        if job is None:
            job = {**asked, "partitions": partitions, "run": uuid.uuid4().hex}
            self.settle(job)
        job["catalog"] = _filled(job["catalog"])
        for part, what in (("queries", "other queries"), ("catalog", "another catalog")):
            if job[part] != asked[part]:
                raise UserError(
                    f"{self.path} belongs to a run with {what}",
                    where="--out",
                    remedy="name a new folder, or give the same queries and catalog to continue",
                )
        return job

    def _check_version(self) -> None:
        """A run with the state of another version can't be continued; say so before Spark starts."""
        program = self.own / "programs" / f"{0:09d}.json"
        if program.exists() and (found := format_of(_text(program))) not in (None, FORMAT):
            raise UserError(
                f"another version of Thalweg has begun this run: its state has format {found}, and this "
                f"version reads format {FORMAT}",
                where=str(self.path),
                remedy="continue it with that version, or name a new folder",
            )

    def settle(self, job: Mapping[str, Any]) -> None:
        """Write down what all further runs on this folder must keep to."""
        write_text(self.own / "job.json", json.dumps(job))

    @property
    def begun(self) -> bool:
        """Whether a batch has been planned, by Spark's own log, or all is done without any."""
        done = (self.metrics() or {}).get("complete", False)
        return done or any((self.checkpoint / "offsets").glob("[0-9]*"))

    @property
    def next_batch(self) -> int:
        """The batch that Spark will begin with: the first that it has not committed."""
        done = [int(p.name) for p in (self.checkpoint / "commits").glob("[0-9]*") if p.name.isdecimal()]
        return max(done, default=-1) + 1

    def plan_of(self, first: int) -> Location:
        """The plan of the program that takes over with a batch."""
        return self.path / plan_file(first)

    def _forget(self) -> None:
        """Remove what a run has made that has read nothing; the lock stays, and whatever else is there."""
        ours = (self.path / name for name in ("plan.json", "metrics.json", "results", ".results", "late"))
        for file in (*ours, *(f for f in self.own.iterdir() if f.name != "lock")):
            if file.is_dir():
                remove_all(file)
            else:
                file.unlink(missing_ok=True)

    def check_held(self) -> None:
        """An error where another run may have taken the folder over: nothing more is to be written."""
        if self._lock is not None:
            self._lock.check()

    @property
    def log(self) -> Path:
        """Where the JVM writes what it has to say: in the folder, or on this machine until the run ends."""
        if isinstance(self.own, Path):
            return self.own / "spark.log"
        if self._beside is None:
            self._beside = tempfile.TemporaryDirectory(prefix="thalweg-log-")
        return Path(self._beside.name) / "spark.log"

    def close(self) -> None:
        """Let others use the folder."""
        if self._beside is not None:
            if isinstance(self.own, RemotePath):
                with contextlib.suppress(OSError):
                    (self.own / "spark.log").put(self.log)
            self._beside.cleanup()
        if self._lock is not None:
            self._lock.release()

    def started(self, pid: int | None) -> None:
        """Note the JVM, so that a later run can wait until this one is gone for good."""
        if pid is not None and (jvm := Process.of(pid)) is not None:
            write_text(self.own / "jvm", str(jvm))

    def _await_last(self) -> None:
        """A JVM outlives a killed driver by a moment, and could still write."""
        jvm = self.own / "jvm"
        if not jvm.exists():
            return
        text = _text(jvm)
        if text.isdecimal():
            return  # of an earlier version, whose programs are refused
        try:
            process = Process.parse(text)
        except ValueError:
            remedy = "remove it when no Spark of an earlier run is left"
            raise damaged(jvm, "it has no process id", remedy) from None
        for _ in range(300):
            if not process.is_here or not process.alive:
                return
            time.sleep(0.1)
        raise UserError(
            f"an earlier run on {self.path} has not ended (process {process.pid})",
            where="--out",
            remedy="end that process first",
        )

    def clear_late(self, batch: int) -> None:
        """Remove the late tuples that an earlier attempt at this batch has left."""
        for file in self.path.glob(f"late/*/{batch:09d}-*"):
            file.unlink()

    def drafts(self, query: str) -> DraftFiles:
        """Where the results of a query are written first."""
        return DraftFiles(self.own / "draft" / query)

    def result_files(self, query: str, *, merges: bool) -> ParquetSink:
        """The result files of a query."""
        return ParquetSink(self.path / "results" / query, self.drafts(query).folder, merges)

    def metrics(self) -> dict[str, Any] | None:
        rows = dict.fromkeys(("input_rows", "output_rows", "late_rows"), dict)
        parts = {**rows, "shipped": list, "elapsed_s": float, "batches": int, "complete": bool}
        return self._read(self.metrics_file, parts, "remove it; the same command writes it anew")

    def tally(self) -> Tally:
        file = self.own / "tally.json"
        if not file.exists():
            return Tally()
        try:
            return Tally.from_json(_text(file).encode())
        except ValueError:
            raise damaged(file, "it has no counts") from None

    def save_tally(self, tally: Tally) -> None:
        write_text(self.own / "tally.json", tally.to_json().decode())

    def _read(
        self, file: Location, parts: Mapping[str, type], remedy: str = NEW_FOLDER
    ) -> dict[str, Any] | None:
        """A JSON object with these parts; None where there is no file."""
        if not file.exists():
            return None
        try:
            found = json.loads(_text(file))
        except (ValueError, RecursionError):
            raise damaged(file, "it is not JSON", remedy) from None
        for part, kind in parts.items():
            if not isinstance(found, dict) or not isinstance(found.get(part), kind):
                raise damaged(file, f"it has no {part!r}", remedy)
        return dict(found)


def _make_private(folder: Path) -> None:
    """Streams pass through the folder: state, parcels, spilled tuples. Nobody else is to read them."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link", where="--out", remedy="name a new folder")
    folder.chmod(0o700)


def _text(file: Location) -> str:
    """A file of ours. Bytes that are no text are replaced; parsing it then fails."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise failed(file, error) from None


def _filled(catalog: dict[str, Any]) -> dict[str, Any]:
    """A catalog that was written down, with what an earlier version did not know: its defaults."""
    try:
        return _told(Catalog.model_validate({"path": "", **catalog}))
    except ValueError:
        return catalog  # another one, whatever it is


def _told(catalog: Catalog) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(catalog.model_dump_json(include={"sites", "streams"}))
    return told


def _identity(options: RunOptions) -> dict[str, Any]:
    """What must be the same for a run to be continued."""
    return {
        "queries": {q.name: q.text for q in options.queries},
        "catalog": _told(options.catalog),
        "budget": options.memory is not None,
        "keep": options.adapts is not Adapt.OFF,
    }

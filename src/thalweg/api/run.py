"""`thalweg.run`: a run in a process of its own, and the handle of it."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from thalweg.api.execute import Ended, cautions, prepared
from thalweg.api.inputs import CatalogInput, QueriesInput
from thalweg.errors import RunError, UserError, in_a_line
from thalweg.plan.options import Progress, Shipped

if TYPE_CHECKING:
    from thalweg.api.plan import Planned
    from thalweg.page.reading import RunFolder
    from thalweg.plan.document import Plan
    from thalweg.plan.options import RunOptions

_LOG = logging.getLogger("thalweg")
_CHILD = ("-m", "thalweg.api.child")
_REDRAWN_S = 0.5
"""A display in a notebook is drawn anew so often at most."""
_PATIENCE_S = 30.0
"""A program that ends waits so long for its runs to stop."""


@dataclass(frozen=True)
class Metrics:
    """The counts of a run, as `metrics.json` has them."""

    input_rows: Mapping[str, int]
    output_rows: Mapping[str, int]
    late_rows: Mapping[str, int]
    shipped: tuple[Shipped, ...]
    elapsed_s: float
    batches: int
    complete: bool
    plan_changes: int = 0
    central_payload_bytes: int | None = None
    windows: Mapping[str, int] | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Metrics:
        """From the JSON of `thalweg run`."""
        shipped = (
            Shipped(way["from"], way["to"], way["tuples"], way["payload_bytes"], way["bytes"])
            for way in told["shipped"]
        )
        known = {one.name: told[one.name] for one in fields(cls) if one.name in told}
        return cls(**{**known, "shipped": tuple(shipped)})

    def to_json(self) -> dict[str, Any]:
        """The JSON of `thalweg run`."""
        told = {**asdict(self), "shipped": [way.to_json() for way in self.shipped]}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True)
class Message:
    """What a run has said; `level` is `info` or `warning`."""

    level: str
    text: str


@dataclass(frozen=True)
class Address:
    """Where the page of a run is."""

    url: str


@dataclass(frozen=True)
class Ready:
    """The process of a run hears signals."""


class Run:
    """A run that goes on in a process of its own. A notebook shows how far it has come.

    It ends with the program that began it. The same call continues it.
    """

    def __init__(self, options: RunOptions, page: int | None = None) -> None:
        self.out = options.out
        self._at = options.out.absolute()  # this process may go to another folder
        self.progress: Progress | None = None
        self.page: str | None = None
        self._messages = [Message("warning", text) for text in cautions(options)]
        self._ended: Ended | None = None
        self._failed: Exception | None = None
        self._ready, self._over = threading.Event(), threading.Event()
        self._gone = False  # its process; `_over` is set once that has been shown
        self._drawing = threading.Lock()
        self._displays: list[Any] = []
        self._drawn_at = 0.0
        self._folder: RunFolder | None = None
        self._begun = time.time()
        self._child, connection = _started(options, page)
        _running.add(self)
        threading.Thread(
            target=self._listen, args=(connection,), name=f"run of {self.out}", daemon=True
        ).start()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the run has said so far."""
        return tuple(self._messages)

    @property
    def state(self) -> str:
        """One of `starting`, `running`, `complete`, `stopped` and `failed`."""
        if not self._gone:
            return "starting" if self.progress is None else "running"
        if self._ended is None:
            return "failed"
        return "complete" if self._ended.metrics["complete"] else "stopped"

    @property
    def metrics(self) -> Metrics | None:
        """The counts of the run once it has ended."""
        return None if self._ended is None or not self._gone else Metrics.of(self._ended.metrics)

    def wait(self, timeout: float | None = None) -> Metrics:
        """Waits until the run has ended, for so many seconds at most; a run that failed raises its error."""
        if not self._over.wait(timeout):
            raise TimeoutError(f"the run has not ended in {timeout:g} seconds")
        if self._failed is not None:
            raise self._failed
        assert self._ended is not None
        return Metrics.of(self._ended.metrics)

    def stop(self) -> Metrics:
        """Stops the run cleanly and waits until it has: what it has read is finished, or will be repeated."""
        self._ready.wait()
        self._child.terminate()
        return self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is not None:  # that error is the one to tell
            with suppress(UserError, RunError):
                self.stop()
        elif self._over.is_set():
            self.wait()
        else:
            self.stop()

    def __repr__(self) -> str:
        told = self._messages[-1].text if self._messages else ""
        if self.progress is not None:
            told = f"batch {self.progress.batch:,}, {self.progress.output_rows:,} results"
        if self._failed is not None:
            told = str(self._failed)
        return f"<run in {self.out}: {self.state}{f', {told}' if told else ''}>"

    def _listen(self, connection: Connection) -> None:
        """Hears what the process of the run says, until it is gone."""
        try:
            with connection, suppress(EOFError, OSError):
                while True:
                    self._hear(connection.recv())
        except Exception as error:  # without it, whoever waits would wait for ever
            self._failed = RunError(f"what the run says can't be understood: {in_a_line(error)}")
            self._child.terminate()
        status = self._child.wait()
        if self._ended is None and self._failed is None:
            self._failed = RunError(
                f"the process of the run has ended with status {status}, without a word; "
                "the same call continues"
            )
        self._gone = True
        _running.discard(self)
        self._redraw()
        self._ready.set()
        self._over.set()

    def _hear(self, told: Any) -> None:
        match told:
            case Ready():
                self._ready.set()
            case Progress():
                self.progress = told
            case Message():
                self._messages.append(told)
                _LOG.log(logging.WARNING if told.level == "warning" else logging.INFO, "%s", told.text)
            case Address():
                self.page = told.url
            case Ended():
                self._ended = told
            case Exception():
                self._failed = told
        if time.monotonic() - self._drawn_at >= _REDRAWN_S:
            self._redraw()

    def _repr_html_(self) -> str:
        """What a notebook shows: the counts, and a map of what flows between sites now."""
        from thalweg.page import still
        from thalweg.page.reading import RunFolder

        error = "" if self._failed is None else str(self._failed)
        with self._drawing:
            if self._folder is None:
                self._folder = RunFolder(self._at)
            return still.html(self._folder.read(), time.time(), self.state, self._begun, self.page, error)

    def _ipython_display_(self) -> None:
        """Shows it in a notebook, which is kept up to date while the run goes on."""
        from IPython.display import HTML, display

        shown = display(HTML(self._repr_html_()), display_id=True)
        if shown is not None:
            self._displays.append(shown)
        if self._gone:  # since it was drawn
            self._redraw()

    def _redraw(self) -> None:
        if not self._displays:
            return
        self._drawn_at = time.monotonic()
        try:
            from IPython.display import HTML

            for shown in self._displays:
                shown.update(HTML(self._repr_html_()))
        except Exception:  # of the notebook, which is no reason to lose sight of the run
            _LOG.warning("the display of the run in %s can't be kept up to date", self.out, exc_info=True)
            self._displays.clear()


def run(
    queries: QueriesInput,
    catalog: CatalogInput,
    out: str | os.PathLike[str],
    *,
    planner: str = "auto",
    objective: str = "bytes",
    deliver_to: str | None = None,
    settings: Mapping[str, Any] | None = None,
    plan: str | os.PathLike[str] | Plan | Planned | None = None,
    once: bool = False,
    master: str | None = None,
    emulate: bool = False,
    jitter: float = 0.0,
    memory_budget: int | str | None = None,
    spill_delay: str | None = None,
    compact: bool = True,
    adapt: str | None = None,
    page: int | bool | None = None,
) -> Run:
    """Run queries on Spark, in a process of its own; the same call with the same folder resumes the run.

    It returns once the queries are planned. The handle has `wait()`, `stop()` and `progress`. `queries` and
    `catalog` are as for `plan`, the others as the options of `thalweg run`; `page` is a port, or True for the
    first free one.
    """
    from thalweg.api.plan import Planned

    options = prepared(
        queries,
        catalog,
        out,
        planner=planner,
        objective=objective,
        deliver_to=deliver_to,
        settings=settings,
        plan=plan.plan if isinstance(plan, Planned) else plan,
        once=once,
        master=master,
        emulate=emulate,
        jitter=jitter,
        memory_budget=memory_budget,
        spill_delay=spill_delay,
        compact=compact,
        adapt=adapt,
    )
    port = (0 if page else None) if isinstance(page, bool) else page
    if port is not None:
        from thalweg.page.serve import check_installed

        check_installed()
    return Run(options, port)


def _started(options: RunOptions, page: int | None) -> tuple[subprocess.Popen[bytes], Connection]:
    """The process of a run, and the connection to it.

    It is in a session of its own, so that a Ctrl-C here, which interrupts a cell, does not stop it.
    """
    ours, theirs = Pipe()
    command = [sys.executable, *_CHILD, str(theirs.fileno())]
    with theirs:
        child = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
    with suppress(OSError):  # it is gone already: the listener tells
        ours.send((options, page))
    return child, ours


_running: weakref.WeakSet[Run] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A program that ends stops its runs."""
    left = list(_running)
    for run in left:
        run._ready.wait(_PATIENCE_S)
        run._child.terminate()
    for run in left:
        try:
            run._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _LOG.warning("a run did not stop in %.0f s; the same call continues it", _PATIENCE_S)

"""Runs the commands of a page as its reader would, and compares what they print with what it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import environment

from .blocks import Block

UNTIL = re.compile(r"\s+# until Ctrl-C$")
PATIENCE_S = 1_800  # the machine may be busy


@dataclass
class Started:
    """A command in a terminal of its own."""

    process: subprocess.Popen[bytes]
    out: Path

    def said(self) -> str:
        return self.out.read_text()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, f"it has not said {text!r}: {self.said()}"
            time.sleep(0.2)

    def interrupt(self) -> None:
        """What Ctrl-C does: all processes of the terminal get it."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE_S)


@dataclass
class Reader:
    """Somebody who follows pages in a folder. `instead` is what stands for names in them."""

    folder: Path
    instead: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    started: list[Started] = field(default_factory=list)
    printed: str = ""

    def follow(self, page: Iterable[Block]) -> None:
        """Save the files of a page, run its commands, look at what they print."""
        try:
            for block in page:
                self._take(block)
        finally:
            for one in self.started:
                if one.process.poll() is None:
                    one.interrupt()

    def _take(self, block: Block) -> None:
        text = self._worded(block.text)
        if block.language == "mark":
            self._heed(text)
        elif block.saved_as:
            (self.folder / block.saved_as).write_text(text)
        elif block.language == "sh" and block.text not in self.left_out:
            self._run(text, block)
        elif block.language == "text":
            check(text, self.printed, str(block))

    def _worded(self, text: str) -> str:
        for name, value in self.instead.items():
            text = text.replace(name, value)
        return text

    def _heed(self, mark: str) -> None:
        last = self.started[-1]
        if mark == "Ctrl-C":
            last.interrupt()
        else:
            last.wait_for(mark.removeprefix("wait for: "))
        self.printed = last.said()

    def _run(self, text: str, block: Block) -> None:
        lines = text.splitlines()
        kept = "\n".join(line for line in lines if not UNTIL.search(line))
        script = f"set -eo pipefail\ncd {self.folder}\n{kept}\n"
        going = [UNTIL.sub("", line) for line in lines if UNTIL.search(line)]
        if going:
            assert len(going) == 1, f"{block}: one command in a terminal"
            out = self.folder / f".terminal{len(self.started)}"
            with out.open("wb") as file:
                process = subprocess.Popen(
                    ["bash", "-c", f"{script}exec {going[0]}"],
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.started.append(Started(process, out))
            return
        where = self.folder / ".where"
        done = subprocess.run(
            ["bash", "-c", f"{script}pwd > {where}"],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.printed = done.stdout + done.stderr
        assert done.returncode == 0, f"{block}: {self.printed}"
        self.folder = Path(where.read_text().strip())
        where.unlink()


def _environment() -> dict[str, str]:
    """The environment that is active after `. .venv/bin/activate`."""
    own = environment()
    return {**own, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"}


def check(shown: str, printed: str, where: str) -> None:
    """Whether the lines that a page shows are among those printed, in that order.

    In a line `...` stands for anything; a line of its own is for lines that are left out.
    """
    lines = iter(printed.splitlines())
    for wanted in shown.splitlines():
        if wanted.strip() in ("", "..."):
            continue
        pattern = ".*".join(re.escape(part) for part in wanted.rstrip().split("..."))
        assert any(re.fullmatch(pattern, line.rstrip()) for line in lines), (
            f"{where} shows {wanted!r}, which is not printed there:\n{printed}"
        )

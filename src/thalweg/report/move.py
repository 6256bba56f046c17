"""The picture of one change of plan: which operators run at which site, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg import report
from thalweg.errors import UserError
from thalweg.storage import Location

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PHASES = {
    "stays": ("#bdc3c7", "", "in both plans"),
    "old": ("#d98880", "", "of the old plan"),
    "ending": ("#f2d7d5", "", "of the old plan: only what is before t*"),
    "starting": ("#e8f6ef", "///", "of the new plan: gets its windows, hands out nothing"),
    "new": ("#7dbb98", "", "of the new plan"),
}
"""What an operator does in a batch: colour, hatching, and words."""

_SHOWN = ("join", "probe", "keys", "sink", "keep")
_LONG = 40  # characters of a name
_BESIDE = 2  # batches before and after the move


@dataclass(frozen=True)
class Bar:
    """An operator at a site, and what it does from one batch to another, the last one excluded.

    `label` is what it is called in the picture; two operators may be called alike.
    """

    site: str
    operator: str
    label: str
    phase: str
    first: int
    last: int


@dataclass(frozen=True)
class Move:
    """A change of plan; `commit` is the first batch whose results from t* on come from the new plan."""

    bars: tuple[Bar, ...]
    commit: int
    first: int
    last: int

    @classmethod
    def read(cls, programs: Location, change: int) -> Move:
        """From the programs of a run; a UserError where there is no such change, or it is not complete."""
        found = dict(sorted((int(p.stem), _program(p)) for p in programs.glob("[0-9]" * 9 + ".json")))
        moving = [b for b in found if found[b]["coming"] == change]
        done = [b for b in found if found[b]["change"] == change]
        if not moving or not done:
            raise UserError(f"the run has completed no change {change}", where="--change")
        over = next((b for b in done if not found[b]["ending"]), max(found) + 1)
        first, last = max(0, moving[0] - _BESIDE), over + _BESIDE
        program_of = {b: found[max(k for k in found if k <= b)] for b in range(first, last)}
        return cls(tuple(_bars(program_of, moving[0], change)), done[0], first, last)


def _program(path: Location) -> dict[str, Any]:
    try:
        program: dict[str, Any] = json.loads(path.read_bytes())["program"]
        if not {"groups", "coming", "change", "starting", "leaving", "ending"} <= program.keys():
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError("is damaged, or of another version", where=str(path)) from None
    return program


def _bars(program_of: dict[int, Any], begun: int, change: int) -> Sequence[Bar]:
    leaving = {*program_of[begun]["leaving"]}
    open_: dict[tuple[str, str], Bar] = {}
    done: list[Bar] = []
    for batch, program in program_of.items():
        for group in program["groups"]:
            for placed in group["operators"]:
                name = placed["name"]
                if placed["spec"]["type"] not in _SHOWN:
                    continue
                phase = _phase(name, program, leaving, change)
                key = (group["site"], name)
                bar = open_.get(key)
                begins = batch
                if bar is not None and bar.phase == phase:
                    begins = bar.first
                elif bar is not None:
                    done.append(bar)
                open_[key] = Bar(*key, _label(placed), phase, begins, batch + 1)
    return [*done, *open_.values()]


def _phase(name: str, program: dict[str, Any], leaving: set[str], change: int) -> str:
    if name in program["starting"]:
        return "starting"
    if name in program["ending"]:
        return "ending"
    if name in leaving:
        return "old"
    return "new" if name.startswith(f"{change}:") else "stays"


def draw(move: Move, path: Path) -> None:
    """Writes the picture as SVG or PNG, by the file's suffix."""
    report.check_path(path)
    report.save(figure(move), path)


def figure(move: Move) -> Figure:
    """A lane for each operator, by site; time goes to the right, in batches."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    order = sorted(move.bars, key=lambda b: (b.site, b.first, b.label, b.operator))
    lanes = {(b.site, b.operator): b.label for b in order}
    numbers = {key: n for n, key in enumerate(lanes)}
    made = Figure(figsize=(9, 1.6 + 0.26 * len(lanes)), layout="constrained")
    axes = made.subplots()
    axes.set_title("a change of plan", loc="left", fontsize=11)
    for bar in move.bars:
        lane = numbers[bar.site, bar.operator]
        axes.barh(lane, bar.last - bar.first, left=bar.first, **_look(bar.phase))
    axes.axvline(move.commit, color="#34495e", linestyle=":", linewidth=1.5)
    axes.annotate("t*", (move.commit, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=10)
    _name(axes, lanes)
    axes.set_xlim(move.first, move.last)
    axes.set_xlabel("batch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right", "left"]].set_visible(False)
    used = {b.phase for b in move.bars}
    handles = [
        axes.barh(0, 0, label=words, **_look(phase))
        for phase, (_, _, words) in PHASES.items()
        if phase in used
    ]
    made.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    return made


def _look(phase: str) -> dict[str, Any]:
    colour, hatch, _ = PHASES[phase]
    return {"color": colour, "hatch": hatch, "edgecolor": PHASES["new"][0] if hatch else "white"}


def _name(axes: Axes, lanes: Mapping[tuple[str, str], str]) -> None:
    """Write the operators' names beside their lanes, and a line between two sites."""
    sites = [site for site, _ in lanes]
    labels = [f"{site}   {label}" for site, label in zip(sites, lanes.values(), strict=True)]
    axes.set_yticks(range(len(lanes)), labels, fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    for lane, (before, site) in enumerate(pairwise(sites), 1):
        if site != before:
            axes.axhline(lane - 0.5, color="#bdc3c7", linewidth=0.8)


def _label(placed: dict[str, Any]) -> str:
    """What an operator is called: without the number of its change, and short.

    >>> _label({"name": "3:q.join1", "spec": {"type": "join"}})
    'q.join1'
    >>> _label({"name": "s/0>n1 kept", "spec": {"type": "keep", "stream": "s"}})
    'keeper of s'
    """
    if placed["spec"]["type"] == "keep":
        return f"keeper of {placed['spec']['stream']}"
    name = str(placed["name"])
    number, colon, rest = name.partition(":")
    short = rest if colon and number.isdecimal() else name
    return short if len(short) <= _LONG else short[: _LONG - 1] + "…"

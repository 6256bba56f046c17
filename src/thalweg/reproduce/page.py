"""The page of all results: every claim of every paper, with what was measured."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thalweg.errors import UserError
from thalweg.files import write_text
from thalweg.reproduce.kept import Kept
from thalweg.reproduce.table import EXPERIMENTS, PAPERS, Experiment

_ROWS = 40
"""A table with more rows is in the CSV file only."""


@dataclass(frozen=True)
class Section:
    """What the page says of an experiment: its lines, its claims, and how many of these hold."""

    lines: tuple[str, ...]
    claims: int
    holding: int

    @classmethod
    def of(cls, lines: Sequence[str]) -> Section:
        """Counts the claims of what a page says."""
        verdicts = [line.rsplit("|", 2)[1].strip() for line in lines if line.endswith(("| yes |", "| no |"))]
        return cls(tuple(lines), len(verdicts), verdicts.count("yes"))


def write_page(found: Mapping[str, Kept], path: Path) -> None:
    """Writes the page, and the pictures into a folder of its name beside it.

    What a page that is there says of other experiments stays.
    """
    folder = path.with_suffix("")
    try:
        before = sections(path.read_text()) if path.exists() else {}
        folder.mkdir(parents=True, exist_ok=True)
        for one in found.values():
            shutil.copyfile(one.picture, folder / f"{one.name}.png")
        write_text(path, page(found, folder.name, before))
    except OSError as error:
        raise UserError(f"the page can't be written: {error.strerror}", where=str(path)) from error


def sections(text: str) -> dict[str, Section]:
    """What a page says of the experiments that were run for it.

    >>> sections("# Page\\n\\n### `a`: b\\n\\n| c | d | yes |\\n\\n### `e`: f\\n\\nNot run for this page.\\n")
    {'a': Section(lines=('', '### `a`: b', '', '| c | d | yes |'), claims=1, holding=1)}
    """
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in text.splitlines():
        if line.startswith("### `"):
            own = found[line.split("`")[1]] = ["", line]
        elif line.startswith("## "):
            own = []
        else:
            own.append(line)
    trimmed = {name: "\n".join(lines).rstrip("\n").split("\n") for name, lines in found.items()}
    return {name: Section.of(lines) for name, lines in trimmed.items() if lines[-1] != _NOT_RUN}


def page(found: Mapping[str, Kept], pictures: str, before: Mapping[str, Section] | None = None) -> str:
    """The text of the page."""
    told = {name: one for name, one in (before or {}).items() if name in EXPERIMENTS}
    told |= {name: Section.of(_experiment(EXPERIMENTS[name], one, pictures)) for name, one in found.items()}
    lines = [
        "# Results of the papers' experiments",
        "",
        "`thalweg reproduce all --results docs/results.md` writes this page. Each claim has a criterion "
        "that was fixed before the experiment was run, unless its setting says otherwise. A claim that does "
        "not hold is followed by the cause, as far as it is known. Seeds are 0, 1, 2 and so on. Many "
        "experiments were run at a fraction of their size, as their titles say: their verdicts may differ "
        "at the whole size. How experiments are run: [reproduce](reproduce.md).",
        "",
        "| paper | experiments | claims | hold |",
        "| --- | ---: | ---: | ---: |",
    ]
    for paper, title in PAPERS.items():
        some = [told[e.name] for e in EXPERIMENTS.values() if e.paper == paper and e.name in told]
        there = sum(e.paper == paper for e in EXPERIMENTS.values())
        if there:
            done = f"{len(some)} of {there}" if len(some) < there else f"{there}"
            lines.append(f"| {title} | {done} | {_counts(some)} |")
    lines.append(f"| all | {len(told)} | {_counts(list(told.values()))} |")
    for paper, title in PAPERS.items():
        experiments = [e for e in EXPERIMENTS.values() if e.paper == paper]
        if experiments:
            lines += ["", f"## {title}"]
            for e in experiments:
                lines += told[e.name].lines if e.name in told else _not_run(e)
    return "\n".join(lines) + "\n"


def _counts(some: Sequence[Section]) -> str:
    return f"{sum(one.claims for one in some)} | {sum(one.holding for one in some)}"


_NOT_RUN = "Not run for this page."


def _not_run(experiment: Experiment) -> list[str]:
    return ["", f"### `{experiment.name}`: {experiment.title} ({experiment.section})", "", _NOT_RUN]


def _experiment(experiment: Experiment, one: Kept, pictures: str) -> list[str]:
    lines = ["", f"### `{one.name}`: {one.said['title']} ({experiment.section})", ""]
    lines += [f"- {_cell(line)}" for line in one.said["setting"]]
    lines += [f"- `{one.command}`, {one.said['seconds']:,.0f} seconds", ""]
    lines += [f"![{experiment.title}]({pictures}/{one.name}.png)", ""]
    lines += ["| claim | measured | holds |", "| --- | --- | --- |"]
    for claim in one.claims:
        holds = "yes" if claim["holds"] else "no"
        lines.append(f"| {_cell(claim['claim'])} | {_cell(claim['measured'])} | {holds} |")
    remarks = [f"- {_first(claim['claim'])}: {claim['why']}" for claim in one.claims if claim["why"]]
    if remarks:
        lines += ["", *remarks]
    plans = one.said["plans"]
    if 0 < len(plans) <= _ROWS:
        lines += ["", "| " + " | ".join(_cell(key) for key in plans[0]) + " |"]
        lines.append("| " + " | ".join(_aligned(value) for value in plans[0].values()) + " |")
        lines += ["| " + " | ".join(_cell(_shown(value)) for value in row.values()) + " |" for row in plans]
    return lines


def _first(claim: str) -> str:
    """A claim without its criterion.

    >>> _first("it costs less (criterion: 10%)")
    'it costs less'
    """
    return claim.partition(" (criterion")[0]


def _aligned(value: object) -> str:
    return "---" if isinstance(value, str) else "---:"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

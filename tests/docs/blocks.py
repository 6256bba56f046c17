"""The documents, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "examples").glob("*/README.md"),
    ]
)

_SAVED = re.compile(r"`([\w.-]+\.(?:py|sql|yaml))`\)?:$")
_MARK = re.compile(r"<!-- (wait for: .+|Ctrl-C) -->")


@dataclass(frozen=True)
class Block:
    """A block of code; `before` is the line of text that leads to it. A mark for the tests is one, too."""

    page: str
    line: int
    language: str
    text: str
    before: str
    indented: bool = False

    @property
    def saved_as(self) -> str | None:
        """The file that the reader is asked to save it as."""
        found = _SAVED.search(self.before)
        return None if found is None else found[1]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page from top to bottom, with the marks for the tests between them."""
    name, text = str(page.relative_to(ROOT)), page.read_text()
    lines = text.splitlines()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map is None:
            continue
        first = token.map[0]
        if token.type in ("fence", "code_block"):
            before = next((line for line in reversed(lines[:first]) if line.strip()), "")
            indented = token.type == "code_block"
            yield Block(name, first + 1, token.info.strip(), token.content, before.strip(), indented)
        elif token.type == "html_block" and (mark := _MARK.fullmatch(token.content.strip())):
            yield Block(name, first + 1, "mark", mark[1], "")


def of(page: str) -> list[Block]:
    """The blocks of a page by its name."""
    return list(blocks(ROOT / page))

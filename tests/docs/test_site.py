"""The site of the documentation: it builds without a warning, needs no network, and leaves no page out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .blocks import PAGES, ROOT

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


def build(root: Path, out: Path) -> tuple[int, str]:
    """What `make docs` does: the exit status, and what it says."""
    done = subprocess.run(
        [root / "tools" / "docs.sh", sys.executable, out], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


class Page(HTMLParser):
    """What a page loads, what it links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.add(str(given["href"]))
        elif (where := given.get(LOADED.get(tag, ""))) and given.get("rel") not in ("next", "prev", "search"):
            self.loads.add(where)


def test_every_page_is_on_the_start_page():
    index = ROOT / "docs" / "index.md"
    listed = {
        (index.parent / target).resolve()
        for target in re.findall(r"^- \[.+?\]\((.+?\.md)\)", index.read_text(), re.MULTILINE)
    }
    notes = ROOT / "docs" / "design"
    assert listed == {p for p in PAGES if p != index and (p.parent != notes or p.name == "README.md")}


@pytest.mark.long
def test_the_site(tmp_path):
    site = tmp_path / "site"
    assert build(ROOT, site) == (0, "")
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if path.parent.name != "_static"}
    assert len(pages) > len(PAGES)
    for path, page in pages.items():
        for place in page.loads | page.links:
            parts = urlsplit(place)
            if parts.scheme or parts.netloc:
                assert place in page.links, f"{path} loads {place}"
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert to.exists(), f"{path}: {place}"
            if to in pages and parts.fragment:
                assert unquote(parts.fragment) in pages[to].anchors, f"{path}: {place}"
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "@font-face" in styles and not re.search(r"url\(['\"]?(https?:)?//", styles)
    assert '"semijoin"' in (site / "searchindex.js").read_text()
    assert not site.with_suffix(".doctrees").exists()


@pytest.mark.long
def test_what_is_broken_fails(tmp_path):
    for name in ("docs", "examples", "benchmarks", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("data", "out"))
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(path, tmp_path)
    assert build(tmp_path, tmp_path / "site") == (0, "")
    with (tmp_path / "docs" / "limits.md").open("a") as page:
        page.write("\n[gone](gone.md) [no such heading](planning.md#gone) ![no picture](gone.png)\n")
    (tmp_path / "docs" / "lonely.md").write_text("# Lonely\n")
    status, said = build(tmp_path, tmp_path / "site")
    assert status != 0
    for fault in ("'gone.md'", "'gone'", "gone.png", "lonely.md"):
        assert fault in said

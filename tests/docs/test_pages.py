"""The commands of the tutorial and of other pages, run in order: they work, and print what the pages show."""

from __future__ import annotations

import shutil
import socket

import pytest

from .blocks import ROOT, of
from .shell import Reader, check

SETUP = "make setup\n. .venv/bin/activate\n"  # the environment of the tests is set up


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as at:
        return at.getsockname()[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The folder of somebody who has followed the tutorial."""
    reader = Reader(tmp_path_factory.mktemp("tutorial"), left_out=frozenset({SETUP}))
    tutorial = of("docs/tutorial.md")
    assert SETUP in [block.text for block in tutorial]
    reader.follow(tutorial)
    assert reader.folder.name == "shop"
    shutil.copytree(reader.folder / "live", reader.folder / "out", symlinks=True)  # a run of the reader's own
    return reader.folder


@pytest.mark.long
def test_the_tutorial(shop):
    drawn = {file.name for file in shop.glob("*.svg")}
    assert drawn == {"map.svg", "history.svg"}
    for name in drawn:  # what it shows has been drawn by its commands
        assert (ROOT / "docs" / f"tutorial-{name}").exists()


@pytest.mark.long
@pytest.mark.parametrize("page", ["sizing", "troubleshooting", "upgrading"])
def test_pages_that_continue_the_tutorial(shop, page):
    Reader(shop).follow(of(f"docs/howto/{page}.md"))


@pytest.mark.long
def test_a_cluster(shop):
    words = {"main.example": "127.0.0.1", "7077": str(free_port()), "/shared/shop": str(shop)}
    Reader(shop, words).follow(of("docs/howto/cluster.md"))


@pytest.mark.long
@pytest.mark.parametrize("page", ["docs/planning.md", "examples/routers/README.md"])
def test_pages_with_files_of_their_own(tmp_path, page):
    for folder in ("docs/examples", "examples/routers"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("data", "out"))
    Reader(tmp_path).follow(of(page))


def test_what_is_shown_must_be_printed():
    printed = "read   6,000\nlate   17\nresults 2,247\n"
    check("read   6,000\n...\nresults ...\n", printed, "here")
    for wrong in ("read   6,001", "results 2,247\nread   6,000", "read ...1"):
        with pytest.raises(AssertionError, match="not printed"):
            check(wrong, printed, "here")

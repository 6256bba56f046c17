"""A run as HTML that stands still: what it shows while the run goes on, when it is over, and before."""

import re
import time
from xml.etree import ElementTree

import pytest

from tests.page.growing import Growing
from thalweg.page import still
from thalweg.page.reading import RunFolder


@pytest.fixture
def growing(tmp_path):
    run = Growing(tmp_path / "out")
    run.back(5)
    return run


def shown(growing, going="running", begun=0.0, **more):
    html = still.html(RunFolder(growing.out).read(), time.time(), going, begun, **more)
    ElementTree.fromstring(html)  # every element is closed, every text escaped
    return html


def test_counts_and_a_map_of_what_flows(growing):
    html = shown(growing, page="http://127.0.0.1:8484")
    assert "<b>out</b> running" in html
    assert '<a href="http://127.0.0.1:8484/"' in html
    point = growing.point
    for text in (f"{sum(point.read.values()):,}", f"{point.results['q']:,}", "central plan", "p95"):
        assert text in html
    assert html.count("marker-end") == len(point.sent)
    assert re.search(r">[\d.]+ k?bytes/s</text>|>[\d.]+ kB/s</text>", html)


def test_when_it_is_over_the_map_has_what_has_flowed(growing):
    growing.end("failed", "the disk is <full>")
    html = shown(growing, "failed", error="the disk is <full>")
    assert html.count("the disk is &lt;full&gt;") == 1
    assert "/s</text>" not in html


def test_what_an_earlier_run_has_left_is_not_shown_as_this_one(growing):
    later = time.time() + 1
    assert "<svg" not in shown(growing, "starting", later)
    assert "<svg" in shown(growing, "complete", later)


def test_a_folder_without_a_run(tmp_path):
    html = still.html(RunFolder(tmp_path / "none").read(), time.time(), "starting", 0.0)
    assert "<b>none</b> starting" in html

"""The page in a real browser: it follows a run, and nothing in it fails.

The pictures in the documentation are made here: `make test-page PICTURES=docs`.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.page.growing import Growing, large, limited

PATIENCE = 120_000  # milliseconds: the machine may be busy
PICTURES = os.environ.get("THALWEG_PICTURES")


@contextmanager
def opened(chromium, url, *, width=1280, height=860, scheme="light", wrong=()):
    """A page in a context of its own; whatever its console says is a failure, but for what is expected."""
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    page.wait_for_selector("body[data-batch]")
    yield page
    context.close()
    assert [text for text in said if not any(w in text for w in wrong)] == []


@contextmanager
def going(run):
    """The run goes on beside the block, a batch every now and then."""
    over = threading.Event()

    def grow():
        while not over.wait(0.4):
            run.step()

    thread = threading.Thread(target=grow)
    thread.start()
    yield
    over.set()
    thread.join()


def picture(page, name):
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / name)


def becomes(page, selector, pattern):
    """Wait until the text of an element fits a pattern."""
    page.wait_for_function(
        "([where, what]) => new RegExp(what).test(document.querySelector(where)?.textContent ?? '')",
        arg=[selector, pattern],
    )


def overlaps(page, selector):
    """How many pairs of elements lie over each other."""
    return page.evaluate(
        """selector => {
            const boxes = [...document.querySelectorAll(selector)].map(e => e.getBoundingClientRect())
                .filter(b => b.width > 0);
            let n = 0;
            boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
                n += Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
            }));
            return n;
        }""",
        selector,
    )


@pytest.fixture
def run(tmp_path):
    made = Growing(tmp_path / "routers", limited(tmp_path))
    made.back(90)
    return made


def test_it_follows_a_run(chromium, served, run):
    run.change("pmjoin-optimal")
    for _ in range(2):
        run.step()
    with served(run.out) as (url, _), opened(chromium, url) as page, going(run):
        assert page.title() == "routers · Thalweg"
        becomes(page, "#state", "^running$")
        page.wait_for_selector("#drawing .site")
        before = int(page.get_attribute("body", "data-batch"))
        page.wait_for_function("n => Number(document.body.dataset.batch) > n + 1", arg=before)
        assert overlaps(page, "#drawing .site rect, #drawing .labels text") == 0
        assert "/s" in page.text_content("#tiles")
        becomes(page, "#links tbody", r"[1-9][0-9.]*%")  # of what the link can carry
        rows = page.text_content("#streams tbody tr:first-child td:nth-child(4)")
        page.wait_for_function(
            "old => document.querySelector('#streams tbody tr td:nth-child(4)').textContent !== old", arg=rows
        )
        picture(page, "page.png")


def test_nodes_stay_while_numbers_change(chromium, served, run):
    with served(run.out) as (url, _), opened(chromium, url) as page, going(run):
        page.evaluate("document.querySelectorAll('#streams tr, #tiles div').forEach(n => { n.same = true; })")
        before = int(page.get_attribute("body", "data-batch"))
        page.wait_for_function("n => Number(document.body.dataset.batch) > n + 1", arg=before)
        assert page.evaluate("[...document.querySelectorAll('#streams tr, #tiles div')].every(n => n.same)")


def test_an_operator_by_keyboard(chromium, served, run):
    run.change("pmjoin-optimal")
    run.step()
    with served(run.out) as (url, _), opened(chromium, url) as page:
        page.focus("#tab-map")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("#tab-operators", "aria-selected") == "true"
        page.fill("#find", "join n2")
        becomes(page, "#how-many", r"^\d+ of \d+ operators$")
        page.focus("#operator-table tbody button")
        page.keyboard.press("Enter")
        becomes(page, "#detail-name", r"^q: join\d of s1 and s[23]")
        becomes(page, "#detail", "read by")
        assert page.evaluate("document.activeElement.id") == "detail-name"
        page.fill("#find", "")
        picture(page, "page-operators.png")
        page.focus("#close")
        page.keyboard.press("Escape")
        assert page.is_hidden("#detail")


def test_a_change_of_plan_arrives(chromium, served, run):
    with served(run.out) as (url, _), opened(chromium, url) as page:
        page.click("#tab-plan")
        becomes(page, "#in-force", "simple")
        assert page.locator("#queries pre[aria-label='the way of each head']").is_hidden()
        assert page.is_visible("#no-changes")
        run.change("pmjoin-optimal")
        run.step()
        becomes(page, "#in-force", "pmjoin-optimal")
        becomes(page, "#changes tbody", "saves 60% of the cost")
        becomes(page, "#planners tbody", "streamjoinopt.*times")
        page.click("#tab-map")
        becomes(page, "#drawing", "split")
        run.change("linear-optimal")
        run.step()
        page.click("#tab-plan")
        becomes(page, "#queries pre[aria-label='the way of each head']", "^head s1 at n1: .*results/s")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_cut_off(chromium, served, run, scheme):
    run.step(late=500)
    with served(run.out) as (url, _), opened(chromium, url, width=360, height=740, scheme=scheme) as page:
        for view in ("map", "operators", "time", "plan", "trouble"):
            page.click(f"#tab-{view}")
            page.wait_for_selector(f"#{view}", state="visible")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, view
        becomes(page, "#troubles-list", r"s1: \d+ tuples late")


def test_the_colours_follow_the_scheme(chromium, served, run):
    ground = "getComputedStyle(document.body).backgroundColor"
    with served(run.out) as (url, _):
        with opened(chromium, url) as page:
            light = page.evaluate(ground)
        with opened(chromium, url, scheme="dark") as page, going(run):
            assert page.evaluate(ground) != light
            page.click("#tab-time")
            page.wait_for_selector("#charts path.line-0[d^=M]", state="attached")
            picture(page, "page-time.png")


def test_a_run_that_ends(chromium, served, run):
    with served(run.out) as (url, _), opened(chromium, url) as page:
        becomes(page, "#state", "^running$")
        run.vanish()
        becomes(page, "#state", "^ended without a word$")
        page.click("#tab-trouble")
        becomes(page, "#troubles-list .error", "the same command continues it")
        run.end("failed", "the disk is full")
        becomes(page, "#state", "^failed$")
        becomes(page, "#troubles-list .error", "the disk is full")


def test_a_page_that_loses_its_server(chromium, served, run):
    with served(run.out) as (url, stop), opened(chromium, url, wrong=("ERR_",)) as page:
        assert page.is_hidden("#lost")
        stop()
        page.wait_for_selector("#lost", state="visible")


def test_twenty_sites_and_a_hundred_operators(chromium, served, tmp_path):
    catalog, sql = large(tmp_path)
    run = Growing(tmp_path / "large", catalog, sql, planner="optimal")
    run.many(100)
    run.back(60)
    with served(run.out) as (url, _), opened(chromium, url) as page, going(run):
        page.wait_for_selector("#drawing .site")
        assert page.locator("#drawing .site").count() == 20
        assert overlaps(page, "#drawing .site rect, #drawing .labels text") == 0
        page.click("#tab-operators")
        becomes(page, "#how-many", "^100 of 100 operators$")
        before = int(page.get_attribute("body", "data-batch"))
        page.wait_for_function("n => Number(document.body.dataset.batch) > n + 1", arg=before)

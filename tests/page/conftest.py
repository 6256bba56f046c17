"""A server of the page in this process, and Chromium, where there is one."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def serving(out: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The page of a run, as long as the block lasts: its address, and what ends it before."""
    import uvicorn

    from thalweg.page.others import compared
    from thalweg.page.server import Watched, app

    watched = Watched(out)
    watched.others.found = compared(out)  # the planners are asked here, not in a process that may take long
    watched.others.now = lambda: watched.others.found
    with socket.create_server(("127.0.0.1", 0)) as at:
        config = uvicorn.Config(app(watched), log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)

        def stop() -> None:
            server.should_exit = True
            thread.join()

        yield f"http://127.0.0.1:{at.getsockname()[1]}", stop
        stop()


@pytest.fixture
def served() -> object:
    return serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A Chromium, driven by Playwright."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"there is no {CHROMIUM}; `make test-page` installs it")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(ARGUMENTS))
        yield browser
        browser.close()

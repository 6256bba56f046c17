"""The page's server: what it answers, and to whom."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from thalweg.page import prometheus
from thalweg.page.map import Maps
from thalweg.page.others import Others
from thalweg.page.reading import RunFolder, Seen
from thalweg.page.state import state
from thalweg.storage import Location

EVERY_S = 1.0
"""The page hears so often how the run is."""

COOKIE = "thalweg"
_NAMES = ["localhost", "127.0.0.1", "[::1]"]
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass
class Watched:
    """A run that several look at: its folder is read once for all of them."""

    path: Location
    clock: Callable[[], float] = time.time
    _lock: Lock = field(default_factory=Lock)
    _read_at: float = -1.0
    _told: tuple[Seen, str] | None = None

    def __post_init__(self) -> None:
        self.folder = RunFolder(self.path)
        self.others = Others(self.path)
        self.maps = Maps()

    def seen(self) -> Seen:
        with self._lock:
            return self.folder.read()

    def state(self) -> str:
        """The state as JSON, not older than a moment."""
        with self._lock:
            now = self.clock()
            if self._told is None or abs(now - self._read_at) >= EVERY_S / 2:
                seen = self.folder.read()
                told = {**state(seen, now), "planners": self.others.found, "map": self.maps.number(seen)}
                self._told, self._read_at = (seen, json.dumps(told)), now
            return self._told[1]

    def health(self) -> tuple[int, dict[str, Any]]:
        """Whether the run is as it should be: it goes on, or was complete or told to stop."""
        seen = self.seen()
        well = seen.status.state not in ("failed", "lost")
        told = {
            "state": seen.status.state,
            "batches": seen.last.batch + 1,
            "last_batch": seen.last.at or None,
        }
        return (200 if well else 503), told


def app(watched: Watched, token: str | None = None) -> FastAPI:
    """The application; with a token, only those who bring it get an answer."""
    made = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if token is None:  # a page of elsewhere that has this machine's name must not read it
        made.add_middleware(TrustedHostMiddleware, allowed_hosts=_NAMES)

    @made.middleware("http")
    async def guarded(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        if token is not None and not _brings(request, token):
            if hmac.compare_digest(request.query_params.get("token", "").encode(), token.encode()):
                response: Response = RedirectResponse(request.url.path, status_code=303)
                response.set_cookie(COOKIE, token, httponly=True, secure=True, samesite="strict")
            else:
                response = JSONResponse({"error": "a token is needed"}, 401, {"WWW-Authenticate": "Bearer"})
        else:
            response = await answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @made.get("/")
    def page() -> Response:
        return _asset("index.html")

    @made.get("/assets/{name}")
    def asset(name: str) -> Response:
        return _asset(name)

    @made.get("/api/state")
    def api_state() -> Response:
        return Response(watched.state(), media_type="application/json")

    @made.get("/api/map")
    def api_map() -> Response:
        return JSONResponse(watched.maps.of(watched.seen()))

    @made.get("/api/planners")
    def planners() -> Response:
        return JSONResponse(watched.others.now())

    @made.get("/api/events")
    async def events(request: Request) -> Response:
        async def told() -> AsyncIterator[str]:
            while not await request.is_disconnected():
                yield f"data: {await asyncio.to_thread(watched.state)}\n\n"
                await asyncio.sleep(EVERY_S)

        return StreamingResponse(told(), media_type="text/event-stream")

    @made.get("/metrics")
    def metrics() -> Response:
        text = prometheus.Metrics(watched.seen(), watched.clock()).text()
        return Response(text, media_type=prometheus.CONTENT_TYPE)

    @made.get("/healthz")
    def healthz() -> Response:
        status, told = watched.health()
        return JSONResponse(told, status)

    return made


def _brings(request: Request, token: str) -> bool:
    """Whether a request has the token, in its header or a cookie."""
    scheme, _, brought = request.headers.get("authorization", "").partition(" ")
    found = brought if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
    return hmac.compare_digest(found.encode(), token.encode())


def _asset(name: str) -> Response:
    """A file of the page; there are no others."""
    files = {f.name: f for f in resources.files("thalweg.page").joinpath("assets").iterdir()}
    suffix = Path(name).suffix
    if name not in files or suffix not in _TYPES:
        return JSONResponse({"error": "there is nothing here"}, 404)
    return Response(files[name].read_bytes(), media_type=_TYPES[suffix])

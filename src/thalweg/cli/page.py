"""`thalweg page`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli import options as given
from thalweg.errors import UserError


def page(
    out: given.RunOut,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, metavar="N", help="Default: the first free one from 8484."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Where to listen. Beyond this machine: a token and TLS.",
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The token that browsers bring."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, as PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key, as PEM.")
    ] = None,
) -> None:
    """Show a run in the browser, with metrics for Prometheus. The run may go on elsewhere, or be over."""
    from thalweg.page.reading import RunFolder
    from thalweg.page.serve import Access, check_installed, listening, serve

    check_installed()
    access = Access(
        host, port, _token(token_file), _file(tls_cert, "--tls-cert"), _file(tls_key, "--tls-key")
    )
    RunFolder(out).check()
    with listening(access) as at:
        typer.echo(f"page of {out}: {access.url(at.getsockname()[1])}/ (Ctrl-C ends it)")
        serve(out, access, at)


def _file(path: Path | None, option: str) -> Path | None:
    if path is not None and not path.is_file():
        raise UserError("there is no such file", where=f"{option} {path}")
    return path


_LEAST = 16  # characters of a token


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the token can't be read: {error}", where=str(path)) from error
    if len(token) < _LEAST or not token.isascii():
        raise UserError(
            f"a token has at least {_LEAST} ASCII characters", where=str(path), remedy="openssl rand -hex 32"
        )
    return token

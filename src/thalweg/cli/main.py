"""`thalweg`: the commands and their exit status.

Exit status 0 is success, 2 is invalid input, 130 or 143 a run that a signal stopped before it was complete, 1
any other failure. Messages go to standard error.
THALWEG_DEBUG=1 adds tracebacks.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from thalweg.cli import compare, demo, history, options, page, plan, reproduce, run, simulate, stats, verify
from thalweg.errors import Stopped, UserError, in_a_line
from thalweg.extras import need

app = typer.Typer(
    name="thalweg",
    help="Join live streams from several sites on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"thalweg {version('thalweg')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command("plan")(plan.plan)
app.command("planners")(plan.planners)
app.command("stats")(stats.stats)
app.command("compare")(compare.compare)
app.command("run", cls=options.PageCommand)(run.run)
app.command("verify")(verify.verify)
app.command("simulate")(simulate.simulate)
app.command("history")(history.history)
app.command("page")(page.page)
app.command("demo", cls=options.PageCommand)(demo.demo)
app.command("reproduce")(reproduce.reproduce)

# `bench` has heavy imports. It parses its own arguments, so that other commands start without them.
_HANDED_ON: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}

if importlib.util.find_spec("thalweg.bench") and importlib.util.find_spec("thalweg.bench.cli"):

    @app.command("bench", context_settings=_HANDED_ON)
    def _bench(context: typer.Context) -> None:
        """Benchmark the join against Spark's own joins, and the planners."""
        need("a benchmark", "draw", "verify")
        from thalweg.bench.cli import app as bench

        command = typer.main.get_command(bench)
        status = command.main(context.args, prog_name="thalweg bench", standalone_mode=False)
        raise typer.Exit(status if isinstance(status, int) else 0)


_INTERRUPTED = 130  # typer's status for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of `thalweg`."""
    sys.exit(invoke(sys.argv[1:] if arguments is None else arguments))


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    try:
        status = typer.main.get_command(app).main(list(arguments), prog_name="thalweg", standalone_mode=False)
        sys.stdout.flush()
        if status == _INTERRUPTED:
            return _end("interrupted", 1)
        return status if isinstance(status, int) else 0
    except UserError as error:
        _trace()
        return _end(str(error), 2)
    except Stopped as error:
        return _end(str(error), error.status)
    except typer.Exit as error:
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _end("interrupted", 1)
    except BrokenPipeError:
        # The reader of the output is gone, so nobody would see a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        usage = getattr(error, "format_message", None)  # only typer's usage errors have it
        if usage is not None:
            return _usage(error, usage())
        _trace()
        return _end(f"{in_a_line(error)} (THALWEG_DEBUG=1 shows the traceback)", 1)


def _trace() -> None:
    if os.environ.get("THALWEG_DEBUG") == "1":
        traceback.print_exc()


def _usage(error: Any, message: str) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message)
        return 2
    hint = f"; see `{context.command_path} --help`" if context is not None else ""
    return _end(message.rstrip(".") + hint, 2)


def _end(message: str, status: int) -> int:
    typer.echo(f"thalweg: {message}", err=True)
    return status

"""Each block of code in the documents is sound: SQL is planned, catalogs are loaded, options exist."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

import thalweg
from thalweg.api.inputs import check_sinks
from thalweg.bench.cli import app as bench
from thalweg.catalog import load
from thalweg.cli.main import app, invoke
from thalweg.errors import UserError
from thalweg.simulate.changes import read_changes

from .blocks import PAGES, ROOT, Block, blocks, of

RUN = {
    "docs/tutorial.md",
    "docs/planning.md",
    "docs/howto/cluster.md",
    "docs/howto/sizing.md",
    "docs/howto/troubleshooting.md",
    "docs/howto/upgrading.md",
    "examples/routers/README.md",
}
"""Pages whose commands test_pages.py runs: it checks what they show."""

NOT_CHECKED = {
    ("docs/adaptive.md", "plan         pmjoin-optimal"): "lines of a display, with the figures of one moment",
    ("docs/adaptive.md", " batch       │ 11"): "a drawing",
    ("docs/architecture.md", " SQL ───>"): "a drawing",
    ("docs/architecture.md", " site A  "): "a drawing",
    ("docs/planning.md", "window(S)"): "formulas",
    ("docs/semantics.md", "greatest(a.ts"): "a formula",
    ("docs/howto/sizing.md", "alive tuples ="): "a formula",
}
"""Blocks that no test can check, by page and beginning, and why."""

COMMANDS = {"cp", "du", "export", "jupyter", "ls", "mkdir", "openssl"}
"""Commands of the system whose options are theirs."""

ASKED_ABOUT = {
    "a": {"k": "int", "v": "int"},
    "b": {"k": "int", "v": "int"},
    "checkins": {"flight": "int", "status": "string"},
    "flights": {"num": "int", "dest": "string", "terminal": "string", "max_temp": "int"},
    "orders": {"item": "int", "amount": "double"},
    "prices": {"item": "int", "price": "double"},
    "r1": {"dest": "string", "size": "long"},
    "r2": {"dest": "string", "size": "long"},
    "s1": {"dest": "string"},
    "s2": {"dest": "string"},
    "weather": {"city": "string", "region": "string", "temp": "int", "forecast": "string"},
}
"""The streams that queries and lists of changes name, where the page has no catalog with them."""

EVERY = [block for page in PAGES for block in blocks(page) if block.language != "mark"]


def excepted(block: Block) -> list[tuple[str, str]]:
    return [key for key in NOT_CHECKED if block.page == key[0] and block.text.startswith(key[1])]


def test_every_exception_is_one():
    assert {key for block in EVERY for key in excepted(block)} == set(NOT_CHECKED)


@pytest.mark.parametrize("block", [b for b in EVERY if not excepted(b)], ids=str)
def test_block(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert not block.indented, "an indented block has no language: use a fenced one"
    CHECKS[block.language](block)


def check_text(block: Block) -> None:
    """What a command prints: only where it is run."""
    assert block.page in RUN, "nothing runs what prints this; name the block in NOT_CHECKED, and why"


# ---- YAML


def stream(columns: Mapping[str, str]) -> dict[str, Any]:
    source = {"format": "parquet", "options": {"path": "data"}}
    return {"site": "here", "time": "ts", "schema": {"ts": "timestamp", **columns}, "source": source}


def known_catalog() -> dict[str, Any]:
    airports = {
        "site": "here",
        "schema": {"code": "string", "name": "string", "region": "string"},
        "source": {"format": "csv", "options": {"path": "data"}},
    }
    streams = {name: stream(columns) for name, columns in ASKED_ABOUT.items()}
    return {"sites": {"here": {}}, "streams": streams, "tables": {"airports": airports}}


def catalogs(block: Block) -> list[str]:
    """The catalogs that a block may be meant for: those of its page, and one with all that is asked about."""
    own = [b.text for b in of(block.page) if b.language == "yaml" and b.text.startswith("sites:")]
    return [*own, json.dumps(known_catalog())]


def check_yaml(block: Block) -> None:
    """A catalog, a part of one, or a list of changes."""
    read = YAML(typ="safe").load(block.text)
    if isinstance(read, list):
        file = Path("changes.yaml")
        file.write_text(block.text)
        any_of(catalogs(block), lambda catalog: read_changes(file, load(catalog)))
        return
    Path("catalog.yaml").write_text(block.text if "sites" in read else json.dumps(completed(read)))
    catalog = load("catalog.yaml")
    if queries := read.get("sinks"):
        check_sinks(catalog, [Path(f"{query}.sql") for query in queries])


def completed(read: dict[str, Any]) -> dict[str, Any]:
    """A part of a catalog, with what a whole one needs."""
    sites = {"here", *(table["site"] for table in read.get("tables", {}).values())}
    streams = {"s": stream({})}
    if "source" in read:
        columns = dict.fromkeys(read["source"].get("columns", {}), "string")
        streams, read = {"s": {**stream(columns), **read}}, {}
    return {"sites": {name: {} for name in sites}, "streams": streams, **read}


def any_of(texts: Iterable[str], done: Callable[[str], object]) -> None:
    """Something that can be done with one of some catalogs."""
    errors = []
    for text in texts:
        Path("catalog.yaml").write_text(text)
        try:
            done("catalog.yaml")
        except (UserError, AssertionError) as error:
            errors.append(str(error))
        else:
            return
    raise AssertionError("\n".join(errors))


# ---- SQL


def check_sql(block: Block) -> None:
    """Each query of it, with an empty line between two, can be planned."""
    for query in re.split(r"\n\s*\n", block.text.strip()):
        Path("query.sql").write_text(query)
        any_of(catalogs(block), planned)


def planned(catalog: str) -> None:
    status = invoke(["plan", "query.sql", "--catalog", catalog])
    assert status == 0


# ---- Python


def check_python(block: Block) -> None:
    """It compiles, and calls functions of Thalweg with arguments that they have."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Call) and (name := of_thalweg(node.func)):
            named = {k.arg: None for k in node.keywords if k.arg}
            inspect.signature(getattr(thalweg, name)).bind_partial(*node.args, **named)


def of_thalweg(function: ast.expr) -> str | None:
    """`join` of `thalweg.join`."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if function.value.id == "thalweg" else None
    return None


# ---- commands


def check_sh(block: Block) -> None:
    """Its syntax is right, and each command, option, file and folder in it exists."""
    subprocess.run(["bash", "-n", "-c", block.text], check=True)
    for command in commands(block.text):
        check_command(command, block)


def commands(text: str) -> list[list[str]]:
    """The commands of a script, without what they are given by redirections and variables."""
    found: list[list[str]] = [[]]
    text = re.sub(r"\\\n", " ", text)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = iter(lexer)
        for word in words:
            if set(word) <= set("|&;"):
                found.append([])
            elif set(word) <= set("<>"):
                next(words)
            elif found[-1] or not re.match(r"[A-Z_]+=", word):
                found[-1].append(word)
        found.append([])
    return [words for words in found if words]


def check_command(command: list[str], block: Block) -> None:
    name, *arguments = command
    if name == "thalweg":
        check_thalweg(arguments)
    elif name == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {a for a in arguments if "=" not in a} <= set(targets)
    elif name == "python" and arguments[0] != "-c":
        check_script(arguments[0], arguments[1:], block)
    elif name == "python":
        ast.parse(arguments[1])
    elif name == "cd":
        made = {b.text for b in of(block.page) if f"mkdir {arguments[0]}\n" in b.text}
        assert made or (ROOT / arguments[0]).is_dir() or arguments[0].startswith("/shared"), arguments[0]
    elif name == "pip":
        check_packages(arguments)
    elif name == ".":
        assert arguments == [".venv/bin/activate"]
    elif "spark-class" in name:
        pass  # test_pages.py runs it
    elif "/" in name:
        assert (ROOT / name).is_file(), name
    else:
        assert name in COMMANDS, f"{name}: is it a command of the system? Then name it in COMMANDS"


def check_thalweg(arguments: list[str]) -> None:
    """Options and arguments as the command line takes them; nothing is run."""
    group = typer.main.get_command(app)
    if arguments[0] == "bench":
        group, arguments = typer.main.get_command(bench), arguments[1:]
    name, *rest = arguments
    command = group.commands[name]
    command.make_context(name, rest)


def check_script(name: str, arguments: list[str], block: Block) -> None:
    """A script of the page or of the example; its options are in its text."""
    saved = [b.text for b in of(block.page) if b.saved_as == name]
    places = [(ROOT / block.page).parent / name, *(ROOT / "examples").glob(f"*/{name}")]
    text = saved[0] if saved else next(p for p in places if p.is_file()).read_text()
    assert [a for a in arguments if a.startswith("--") and a not in text] == []


def check_packages(arguments: list[str]) -> None:
    """Packages that the project names, and extras that it has; Jupyter is the reader's own."""
    assert arguments[0] == "install"
    text = (ROOT / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for package in (a for a in arguments[1:] if not a.startswith("-")):
        name, _, extra = package.rstrip("]").partition("[")
        if extra:
            assert name in ("thalweg", ".") and set(extra.split(",")) <= set(extras)
        else:
            assert name in ("thalweg", "jupyterlab") or f'"{name}>' in text, name


CHECKS = {"text": check_text, "yaml": check_yaml, "sql": check_sql, "python": check_python, "sh": check_sh}


# ---- the checks themselves


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "thalweg run q.sql --catalog c.yaml --out out --onse"),
        ("sh", "thalweg runn q.sql"),
        ("sh", "thalweg plan q.sql --catalog c.yaml | nosuch"),
        ("sh", "make nothing"),
        ("sh", "cd examples/nowhere"),
        ("sh", "pip install 'thalweg[nothing]'"),
        ("sh", "python make.py --nothing"),
        ("sh", "if true"),
        ("sql", "SELECT a.nothing FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"),
        ("sql", "SELECT a.k FROM a, b WHERE a.k = b.k"),
        ("yaml", "sites: {here: {}}\nstraems: {}"),
        ("yaml", "sinks:\n  q:\n    - {format: kafka, kee: k}"),
        ("yaml", "- {at: 3, stream: s, rat: 3}"),
        ("python", "thalweg.join(streams, on='k', wthin='3 s')"),
        ("python", "joined = ("),
        ("text", "plan"),
    ],
)
def test_what_is_wrong_is_found(language, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception):  # noqa: B017 (a click or a pandas error, a syntax error, an assertion)
        CHECKS[language](Block("README.md", 1, language, f"{text}\n", ""))


# ---- what pages quote


def test_the_messages_that_troubleshooting_quotes_exist():
    rows = [
        cell
        for line in (ROOT / "docs/howto/troubleshooting.md")
        .read_text()
        .split("## ... a run refuses")[1]
        .splitlines()
        if line.startswith("| ") and "`" in line.split(" | ")[0]
        for cell in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    ]
    assert len(rows) > 10
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    fragments = re.sub(r'"\s*\n\s*f?"', "", source)
    assert [message for message in rows if message not in fragments] == []

"""What is said where packages of an extra are missing: one line, with what to install, before any work."""

import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import folder, thalweg
from tests.cli.test_commands import wrong
from thalweg.errors import UserError
from thalweg.extras import PACKAGES, missing, need

ROOT = Path(__file__).parents[1]
__all__ = ["folder", "thalweg"]
GIVEN = ("q.sql", "--catalog", "catalog.yaml")


def test_each_extra_brings_its_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for extra, modules in PACKAGES.items():
        brought = {one.split(">=")[0] for one in extras[extra]}
        assert {module.replace("_", "-") for module in modules} == brought
    assert extras["all"] == [f"thalweg[{','.join(sorted(PACKAGES))}]"]
    assert extras["dev"][0].startswith("thalweg[all,")


def test_what_is_missing_is_named(monkeypatch):
    assert missing(*PACKAGES) == []
    need("this", *PACKAGES)
    for name in ("prometheus_client", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    assert missing("page", "draw", "verify") == ["prometheus_client", "duckdb"]
    with pytest.raises(UserError) as refused:
        need("the demo", "page", "draw", "verify")
    told = "the demo needs prometheus-client, duckdb; pip install 'thalweg[page,verify]'"
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("module", "command", "message"),
    [
        (
            "matplotlib",
            ("plan", *GIVEN, "--picture", "map.svg"),
            "a picture needs matplotlib; pip install 'thalweg[draw]'",
        ),
        (
            "matplotlib",
            ("compare", *GIVEN, "--chart", "bars.png"),
            "a picture needs matplotlib; pip install 'thalweg[draw]'",
        ),
        ("duckdb", ("stats", *GIVEN), "measuring streams needs duckdb; pip install 'thalweg[verify]'"),
        ("duckdb", ("simulate", *GIVEN), "simulating needs duckdb; pip install 'thalweg[verify]'"),
        ("duckdb", ("demo", "--out", "demo"), "the demo needs duckdb; pip install 'thalweg[verify]'"),
        (
            "matplotlib",
            ("reproduce", "mjoin-table1"),
            "an experiment needs matplotlib; pip install 'thalweg[draw]'",
        ),
        ("duckdb", ("bench", "join"), "a benchmark needs duckdb; pip install 'thalweg[verify]'"),
        (
            "fastapi",
            ("run", *GIVEN, "--out", "out", "--page"),
            "the page needs fastapi; pip install 'thalweg[page]'",
        ),
    ],
)
def test_commands_say_it_before_they_begin(folder, thalweg, monkeypatch, module, command, message):
    monkeypatch.setitem(sys.modules, module, None)
    assert wrong(thalweg(*command)) == f"thalweg: {message}\n"
    assert sorted(p.name for p in folder.iterdir()) == ["catalog.yaml", "data", "q.sql"]


def test_verifying_says_it(folder, thalweg, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (folder / "out" / "results" / "q").mkdir(parents=True)
    (folder / "out" / "results" / "q" / "0.parquet").write_bytes(b"any")
    told = wrong(thalweg("verify", *GIVEN, "--out", "out"))
    assert told == "thalweg: verifying needs duckdb; pip install 'thalweg[verify]'\n"

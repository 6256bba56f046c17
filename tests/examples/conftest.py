import importlib.util
import json
import shutil
import sys
import types
from pathlib import Path

import pytest

from thalweg.api.inputs import read_catalog, read_queries
from thalweg.cli.main import invoke
from thalweg.oracle import duck

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(tmp_path, monkeypatch, capsys):
    """Copies an example to a folder of its own and goes there; what it does there is done in that folder."""

    def copied(name):
        home = tmp_path / name
        home.mkdir()
        for file in EXAMPLES.joinpath(name).iterdir():
            if file.suffix in (".py", ".sql", ".yaml"):
                shutil.copy(file, home)
        monkeypatch.chdir(home)
        spec = importlib.util.spec_from_file_location(f"{name}_make", home / "make.py")
        make = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, make)  # dataclasses look their module up
        spec.loader.exec_module(make)

        def command(*arguments):
            assert invoke([*arguments, "--json"]) == 0
            return json.loads(capsys.readouterr().out)

        catalog = read_catalog(Path("catalog.yaml"))

        def results(query):
            (parsed,) = read_queries([Path(query)], catalog)
            with duck.connect() as con:
                duck.load(con, parsed, catalog, out_dir=home / "out")
                sql = duck.expected_sql(parsed, catalog)
                return con.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]

        return types.SimpleNamespace(home=home, make=make, command=command, catalog=catalog, results=results)

    return copied

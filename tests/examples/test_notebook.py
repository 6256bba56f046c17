"""The notebook: from a CSV to a join across three sites."""

import importlib.util
import shutil

import nbformat
import pytest

from tests.conftest import environment
from tests.examples.conftest import EXAMPLES

HOME = EXAMPLES / "notebook"


@pytest.fixture
def notebook():
    return nbformat.read(HOME / "parcels.ipynb", 4)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of its own with the notebook's data."""
    shutil.copy(HOME / "scans.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_csv_is_that_of_make(tmp_path):
    spec = importlib.util.spec_from_file_location("notebook_make", HOME / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    make.main(tmp_path / "scans.csv")
    assert (tmp_path / "scans.csv").read_text() == (HOME / "scans.csv").read_text()


def test_its_cells_up_to_the_run_and_nothing_is_left_in_it(notebook, home):
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in cells(notebook))
    sources = [cell.source for cell in cells(notebook)]
    begin = next(n for n, source in enumerate(sources) if "thalweg.run(" in source)
    known = {}
    for source in sources[:begin]:
        if "thalweg.compare(" not in source:  # all planners take seconds
            exec(source, known)
    assert known["plan"].queries[0].deployment.sites == ("harbour", "hub", "town")
    for source in sources[begin:]:
        compile(source, "a cell", "exec")


@pytest.mark.long
def test_it_runs(notebook, home, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("SPARK_MASTER", environment()["SPARK_MASTER"])
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(home)}}).execute()
    shown = {
        name: output["data"]
        for cell in cells(notebook)
        for output in cell.outputs
        if "data" in output
        for name in ("measured", "compare", "plan", "run", "metrics", "verdict", "results")
        if cell.source.splitlines()[-1].startswith((name, f"thalweg.{name}("))
    }
    assert "selectivity" in shown["measured"]["text/plain"]
    assert "optimal</text>" in shown["compare"]["image/svg+xml"]
    assert ">harbour</text>" in shown["plan"]["image/svg+xml"]
    # What was shown when the run began has been brought up to date since.
    assert "<b>out</b> complete" in shown["run"]["text/html"]
    assert "<svg" in shown["run"]["text/html"]
    assert "complete=True" in shown["metrics"]["text/plain"]
    assert shown["verdict"]["text/plain"].startswith("Verdict(same=True, expected=76")
    assert "berth" in shown["results"]["text/html"]

"""What the documents say exists, exists; what they show, works."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.blocks import PAGES
from thalweg.cli.main import invoke
from thalweg.extras import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "thalweg"


def modules():
    """Every module, relative to the package; what only marks a folder as a package does not count."""
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    return {name for name in found if not name.endswith("/__init__.py")}


def test_the_architecture_names_every_module_and_no_other():
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) == modules()
    folders = set(re.findall(r"^### `(\w+)/`", text, re.MULTILINE))
    assert folders == {path.parent.name for path in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def readme(tmp_path, monkeypatch):
    """The README's catalog and query as files, beside streams of the kind that they and the example read."""
    (catalog,) = blocks(ROOT / "README.md", "yaml")
    (query,) = blocks(ROOT / "README.md", "sql")
    (tmp_path / "catalog.yaml").write_text(catalog)
    (tmp_path / "same_dest.sql").write_text(query)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for n, name in enumerate(("r1", "r2", "r3")):
        (tmp_path / "packets" / name).mkdir(parents=True)
        table = pa.table(
            {
                "ts": pa.array(
                    [begin + timedelta(seconds=s + n) for s in range(20)], pa.timestamp("us", tz="UTC")
                ),
                "dest": [f"10.0.0.{s % 4}" for s in range(20)],
                "size": list(range(20)),
            }
        )
        pq.write_table(table, tmp_path / "packets" / name / "0.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_catalog_and_the_query_of_the_readme_can_be_planned(readme, capsys):
    assert invoke(["plan", "same_dest.sql", "--catalog", "catalog.yaml"]) == 0
    assert "join" in capsys.readouterr().out


@pytest.mark.long
def test_the_examples_of_the_readme_run(readme):
    def done(*arguments):
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        subprocess.run([sys.executable, *arguments], check=True, env=environment)

    (example,) = blocks(ROOT / "README.md", "python")
    (readme / "example.py").write_text(example)
    done("example.py")
    joined = pq.read_table(readme / "joined")
    assert joined.num_rows > 0
    assert {"r1_dest", "r3_size", "result_time"} <= set(joined.column_names)

    given = ("same_dest.sql", "--catalog", "catalog.yaml", "--out", "out")
    done("-m", "thalweg", "run", *given, "--once")
    done("-m", "thalweg", "verify", *given)


def test_the_python_page_plans_what_it_shows(tmp_path, monkeypatch):
    """What runs on Spark there is only compiled; the notebook in examples/ runs the same."""
    for name in ("routers.sql", "routers.yaml"):
        shutil.copy(ROOT / "docs" / "examples" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {}
    for block in blocks(ROOT / "docs" / "python.md", "python"):
        code = compile(block, "docs/python.md", "exec")
        if "thalweg.run(" not in block:
            exec(code, known)
    assert f"{known['plan'].queries[0].query}" == "fall"
    assert known["best"].cost == pytest.approx(0.0696)
    assert (tmp_path / "map.svg").exists()


def test_the_python_page_has_every_extra():
    text = (ROOT / "docs" / "python.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \| \w", text, re.MULTILINE))
    assert {*PACKAGES, "all"} <= named

"""Imports go one way, and `import thalweg` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg

SOURCE = Path(thalweg.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

ANYONES = {"errors", "extras", "files", "lock", "names", "private", "processes", "storage", "units"}
"""Modules that every part may import."""

MAY_IMPORT = {
    **{name: set() for name in ANYONES},
    "catalog": set(),
    "query": {"catalog"},
    "plan": {"catalog", "query"},
    "cost": {"catalog", "query", "plan", "kernel"},
    "planners": {"catalog", "query", "plan", "cost"},
    "workloads": {"catalog", "query", "plan", "cost", "planners"},
    "adapt": {"catalog", "query", "plan", "cost", "planners", "observe"},
    "report": {"catalog", "query", "plan", "cost", "planners", "adapt"},
    "oracle": {"catalog", "query"},
    "kernel": set(),
    "observe": {"kernel", "catalog", "query"},
    "wire": {"kernel"},
    "exchange": {"wire"},
    "live": {"catalog", "plan"},
    "page": {"live", "catalog", "query", "plan", "cost", "planners", "adapt", "report"},
    "operators": {"kernel", "wire", "query", "plan", "observe"},
    "compile": {"operators", "kernel", "query", "plan", "wire", "observe"},
    "simulate": {
        *("compile", "operators", "kernel", "wire", "workloads", "oracle"),
        *("catalog", "query", "plan", "cost", "planners"),
    },
    "spark": {
        "compile",
        "operators",
        "exchange",
        "wire",
        "kernel",
        "catalog",
        "query",
        "plan",
        "adapt",
        "observe",
        "live",
    },
    "bench": {
        *("kernel", "query", "spark", "catalog", "plan", "cost", "planners", "reproduce"),
        *("wire", "exchange", "adapt", "demo", "workloads", "simulate", "page"),
    },
    "demo": {"catalog", "query", "plan", "cost", "planners", "report", "adapt"},
    "reproduce": {
        *("kernel", "report", "catalog", "query", "plan", "planners", "adapt"),
        *("compile", "operators", "simulate", "wire", "oracle", "cost", "workloads"),
    },
    "api": {
        *("catalog", "query", "plan", "cost", "planners", "report", "adapt"),
        *("oracle", "observe", "spark", "page"),
    },
    "cli": {
        "api",
        *("catalog", "query", "plan", "cost", "planners", "report", "adapt"),
        *("oracle", "observe", "spark", "bench", "demo", "reproduce", "page", "simulate"),
    },
    "__init__": {"api", "spark"},
    "__main__": {"cli"},
}
"""For each part, the parts that it may import beside itself."""


def part(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the whole name"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("thalweg.")}
    known = {p for p in parts if (SOURCE / p).is_dir() or (SOURCE / f"{p}.py").is_file()}
    assert known - {part(path)} <= MAY_IMPORT[part(path)] | ANYONES


def test_only_spark_imports_pyspark():
    """Spark's own join, which benchmarks compare with, is in bench/; it is imported only when it runs."""
    guilty = {p for p in MODULES if any(n.split(".")[0] in ("pyspark", "py4j") for n in imported(p))}
    beside = {SOURCE / "bench" / "cascade.py", SOURCE / "bench" / "drain.py"}
    assert {part(p) for p in guilty - beside} == {"spark"}


def test_every_part_is_in_the_table():
    assert {part(path) for path in MODULES} == set(MAY_IMPORT)


def test_import_thalweg_is_light():
    code = (
        "import sys, thalweg; "
        "heavy = {'pyspark', 'py4j', 'pyarrow', 'pandas', 'numba', 'numpy', 'duckdb', 'sqlglot', 'scipy', "
        "'matplotlib', 'rich', 'typer', 'pydantic', 'fastapi', 'ruamel', 'IPython', 'multiprocessing'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_each_public_name_is_there():
    assert set(thalweg.__all__) <= set(dir(thalweg)) | set(thalweg._MODULES)
    for name in thalweg.__all__:
        assert getattr(thalweg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        _ = thalweg.fly


def test_the_function_plan_is_not_the_folder_plan():
    code = (
        "import thalweg.plan.document, thalweg; from thalweg.plan.options import Adapt; "
        "from thalweg import plan; print(plan.__module__, thalweg.plan is plan)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "thalweg.api.plan True\n"


def test_planning_is_light():
    """What `thalweg plan` imports is most of the time it takes."""
    example = Path(__file__).parents[1] / "docs/examples"
    arguments = ["plan", str(example / "routers.sql"), "--catalog", str(example / "routers.yaml")]
    code = (
        "import sys; from thalweg.cli.main import invoke; "
        "status = invoke(sys.argv[1:]); "
        "heavy = {'scipy', 'matplotlib', 'numba', 'pyarrow', 'pandas', 'duckdb', 'pyspark', 'py4j', 'rich', "
        "'thalweg.kernel'}; "
        "print(status, sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    assert done.stdout.startswith("routers: planner ")

"""The wheel and the sdist: they are whole, and work with nothing but what the package itself asks for."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import thalweg
from tests.conftest import environment
from thalweg.extras import PACKAGES

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, and the wheel that is made of it."""
    out = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def home(wheel, tmp_path_factory):
    """An environment with the wheel, and of this one's packages only those that the wheel asks for."""
    made = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", made], check=True)
    install = [made / "bin" / "pip", "install", "-q", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, env=clean())
    (packages,) = made.glob("lib/*/site-packages")
    (metadata,) = packages.glob("thalweg-*.dist-info")
    for needed in closure(PathDistribution(metadata)):
        for top in {
            file.parts[0] for file in needed.files or () if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(needed.locate_file(top))))
    return made


def closure(of: Distribution) -> list[Distribution]:
    """All that a distribution needs, directly or not, without its extras."""
    found: dict[str, Distribution] = {}
    waiting = [(of, frozenset[str]())]
    while waiting:
        one, extras = waiting.pop()
        for required in map(Requirement, one.requires or ()):
            of_extra = [{"extra": extra} for extra in extras] or [{"extra": ""}]
            wanted = required.marker is None or any(required.marker.evaluate(e) for e in of_extra)
            if wanted and required.name.lower() not in found:
                found[required.name.lower()] = distribution(required.name)
                waiting.append((distribution(required.name), frozenset(required.extras)))
    return list(found.values())


def clean() -> dict[str, str]:
    """The environment without the sources of this checkout."""
    return {name: value for name, value in environment().items() if name != "PYTHONPATH"}


def run(home, *command, cwd):
    done = subprocess.run(
        [home / "bin" / command[0], *command[1:]],
        cwd=cwd,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def sources(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)) for path in files}


def test_both_have_all_files_and_no_others(built, wheel):
    ours = sources(ROOT / "src" / "thalweg")
    assert {"py.typed", "page/assets/app.js", "spark/python.sh"} <= ours
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {f"thalweg/{name}" for name in ours}
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f"src/thalweg/{name}" for name in ours} <= inside
    assert {name.split("/")[0] for name in inside} == {
        *("src", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore")
    }


def test_the_environment_is_complete_and_has_nothing_of_the_extras(home, tmp_path):
    assert run(home, "pip", "check", cwd=tmp_path)[0] == 0
    code = f"from thalweg.extras import *; print(sorted(missing(*{list(PACKAGES)})))"
    expected = sorted(module for modules in PACKAGES.values() for module in modules)
    assert run(home, "python", "-c", code, cwd=tmp_path) == (0, f"{expected}\n", "")
    where = run(home, "python", "-c", "import thalweg; print(thalweg.__file__)", cwd=tmp_path)[1]
    assert where.startswith(str(home))


def test_commands_work_there(home, tmp_path):
    assert run(home, "thalweg", "--version", cwd=tmp_path) == (0, f"thalweg {thalweg.__version__}\n", "")
    given = (EXAMPLE / "routers.sql", "--catalog", EXAMPLE / "routers.yaml")
    status, out, err = run(home, "thalweg", "plan", *given, cwd=tmp_path)
    assert (status, err) == (0, "")
    assert out.startswith("routers: planner ")
    told = "thalweg: a picture needs matplotlib; pip install 'thalweg[draw]'\n"
    assert run(home, "thalweg", "plan", *given, "--picture", "map.svg", cwd=tmp_path) == (2, "", told)
    code = (
        "import sys, thalweg; made = thalweg.plan(*sys.argv[1:]); "
        "print(made.queries[0].query, made._repr_svg_(), 'matplotlib' in made._repr_html_())"
    )
    plan = run(home, "python", "-c", code, given[0], given[2], cwd=tmp_path)
    assert plan == (0, "routers None True\n", "")


def test_a_run_needs_no_extra(home, tmp_path):
    """Spark's Python workers import pandas and Arrow, but nothing of the extras."""
    catalog = (ROOT / "examples" / "routers" / "catalog.yaml").read_text()
    (tmp_path / "catalog.yaml").write_text(catalog)
    (tmp_path / "q.sql").write_text((ROOT / "examples" / "routers" / "routers.sql").read_text())
    make = [sys.executable, ROOT / "examples" / "routers" / "make.py", "--seconds", "5", "--out", "data"]
    subprocess.run(make, cwd=tmp_path, check=True, env=dict(os.environ))
    given = ("q.sql", "--catalog", "catalog.yaml", "--out", "out")
    status, out, err = run(home, "thalweg", "run", *given, "--once", cwd=tmp_path)
    assert status == 0, err
    assert "complete" in out
    assert "thalweg: no picture: a picture needs matplotlib; pip install 'thalweg[draw]'" in err
    told = "thalweg: verifying needs duckdb; pip install 'thalweg[verify]'\n"
    assert run(home, "thalweg", "verify", *given, cwd=tmp_path) == (2, "", told)
    ours = subprocess.run(
        [sys.executable, "-m", "thalweg", "verify", *given],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ours.returncode == 0, ours.stdout

"""What `make` says when the machine lacks something: one line, no traceback, and nothing is changed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from thalweg.errors import UserError
from thalweg.spark.java import check_java

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def machine(tmp_path):
    """A checkout and an almost empty machine; `have` puts a command on it."""
    checkout = tmp_path / "checkout"
    (checkout / "tools").mkdir(parents=True)
    for name in ("Makefile", "tools/setup.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout / name)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "env", "dirname", "sed", "head", "make", "touch", "sh"):
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)

    class Machine:
        home = checkout

        def have(self, name, script):
            path = commands / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

        def make(self, target="test", **environment):
            return subprocess.run(
                ["make", "--no-print-directory", target],
                cwd=checkout,
                env={"PATH": str(commands), **environment},
                capture_output=True,
                text=True,
                check=False,
            )

    return Machine()


def said(done):
    """What it said itself; the line after it is make's own."""
    assert done.returncode != 0
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert all(line.startswith("make: ***") for line in rest)
    return first


def java(version):
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def test_no_java(machine):
    assert "Java 17 or later is missing, there is none on the PATH" in said(machine.make())
    told = said(machine.make(JAVA_HOME="/nowhere"))
    assert "there is none in JAVA_HOME (/nowhere)" in told


@pytest.mark.parametrize(("version", "shown"), [("11.0.2", "11"), ("1.8.0_392", "8"), ("16", "16")])
def test_an_old_java(machine, version, shown):
    machine.have("java", java(version))
    assert f"the one on the PATH is {shown}" in said(machine.make())


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_no_python(machine, version):
    machine.have("java", java(version))
    machine.have("python3.13", "echo 'no such version' >&2; exit 127")  # as a version manager's stand-in does
    machine.have("python3", "exit 1")
    told = said(machine.make())
    assert "Python 3.11 or later (with venv) is missing" in told
    assert not (machine.home / ".venv").exists()


def test_an_installation_that_fails_is_done_again_the_next_time(machine):
    machine.have("java", java("17.0.15"))
    fake = (
        'case "$*" in\n'
        '  *"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;\n'
        '  *"pip install"*) echo "pip: no network" >&2; exit 1 ;;\n'
        "  *--version*) echo Python 3.12.1 ;;\n"
        "esac"
    )
    machine.have("python3.12", fake)
    for name in ("mkdir", "cp"):
        machine.have(name, f'exec {shutil.which(name)} "$@"')
    for _ in range(2):
        done = machine.make("setup")
        assert done.returncode != 0
        assert "pip: no network" in done.stderr
        assert "setup: the installation failed; the lines above say why" in done.stderr
    assert not (machine.home / ".venv" / ".installed").exists()


def test_a_run_says_the_same_of_java(machine, monkeypatch):
    """What Spark finds when it can't start is told in the words of the setup."""

    def told(**environment):
        with pytest.raises(UserError) as refused:
            check_java()
        assert said(machine.make(**environment)) == f"setup: {refused.value}"
        return str(refused.value)

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(machine.home.parent / "bin"))
    assert "there is none on the PATH" in told()
    machine.have("java", java("1.8.0_392"))
    assert "the one on the PATH is 8" in told()
    machine.have("java", java("17.0.15"))
    check_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "there is none in JAVA_HOME (/nowhere)" in told(JAVA_HOME="/nowhere")

"""Shared memory of workers: open to nobody else, and no more than a cache."""

from __future__ import annotations

import json
import os
import shutil
import stat

import pytest

from thalweg.processes import Process
from thalweg.spark import worker

from .places import check_complete, place


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A folder in place of the machine's shared memory; this process is taken for a worker of itself."""
    root = tmp_path / "memory"
    root.mkdir()
    monkeypatch.setattr(worker, "MEMORY", root)
    monkeypatch.setattr(worker, "ancestors", lambda _: iter([(os.getpid(), "java")]))
    monkeypatch.setattr(worker, "_queries", {})
    return root


def test_nobody_else_can_read_the_folder_of_a_job(memory):
    before = os.umask(0)
    try:
        found = worker.caches("job").folder
    finally:
        os.umask(before)
    for folder in (found, found.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("other", ["link", "file", "open"])
def test_a_folder_that_others_have_prepared_is_not_used(memory, other, tmp_path):
    """Nor is what is in it removed."""
    path, elsewhere = worker._path("job"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    if other == "link":
        path.symlink_to(elsewhere)
    elif other == "file":
        path.touch()
    else:
        path.mkdir(mode=0o755)
    assert worker.caches("job").folder is None
    assert (elsewhere / "kept").exists()


def test_what_a_dead_jvm_has_left_is_removed_and_nothing_else(memory):
    dead, alive, odd = (memory / f"thalweg-{os.geteuid()}-{name}" for name in ("dead", "alive", "x"))
    own = Process.of(os.getpid())
    for folder, owner in ((dead, own._replace(started=own.started + 1)), (alive, own)):
        folder.mkdir(mode=0o700)
        (folder / "owner").write_text(str(owner))
    odd.touch()
    foreign = memory / "other"
    foreign.mkdir()
    worker.caches("job")
    assert not dead.exists()
    assert alive.exists()
    assert odd.exists()
    assert foreign.exists()


def test_folders_of_another_container_are_left_alone(memory):
    """Its process numbers mean other processes, or none, here."""
    foreign = memory / f"thalweg-{os.geteuid()}-foreign"
    foreign.mkdir(mode=0o700)
    (foreign / "owner").write_text("999999999 1 another-boot/1")
    worker.caches("job")
    assert foreign.exists()


def test_memory_of_queries_that_have_long_done_nothing_is_freed(memory):
    """Also if another worker has served them."""
    old, new = (worker.Caches("job", name).folder for name in ("old", "new"))
    os.utime(old, (1, 1))
    worker.caches("other")
    assert not old.exists()
    assert new.exists()


def test_without_shared_memory_there_is_none(monkeypatch, memory):
    shutil.rmtree(memory)
    assert worker.caches("job").folder is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount of its own")
@pytest.mark.parametrize(
    "mount",
    [
        pytest.param("mount -t tmpfs -o size=64k none /dev/shm", id="full"),
        pytest.param("mount -t tmpfs -o ro none /dev/shm", id="read-only", marks=pytest.mark.long),
        pytest.param("mount -t tmpfs -o size=64m none /dev/shm", id="small", marks=pytest.mark.long),
    ],
)
def test_a_run_goes_on_without_shared_memory(tmp_path, command, mount):
    made = place(tmp_path)
    within = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
    code, out, err = command(*made.run("--planner", "optimal"), cwd=made.root, within=within)
    assert code == 0, err
    check_complete(made, json.loads(out), command)
    assert err.count("/dev/shm") == (0 if "64m" in mount else 1)

"""Files of tuples: what was written is read, and nothing else."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from thalweg.errors import UserError
from thalweg.kernel import spill_files
from thalweg.kernel.spill_files import SpillFolder

BATCH = pa.record_batch([pa.array([1, None, 3]), pa.array(["a", "", None])], names=["x", "s"])


def test_there_and_back(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path / "new")
    assert folder.names() == set()
    entry = folder.write("one", BATCH)
    assert folder.read(entry).equals(BATCH)
    assert folder.names() == {"one"}
    folder.remove("one")
    folder.remove("one")
    assert folder.names() == set()


def test_a_changed_file_is_found_out_by_name(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    entry = folder.write("one", BATCH)
    path = tmp_path / "one"
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(UserError, match=r"one.*damaged"):
            folder.read(entry)
    for cut in (0, 1, len(good) - 1):
        path.write_bytes(good[:cut])
        with pytest.raises(UserError, match=r"one.*damaged"):
            folder.read(entry)
    path.unlink()
    with pytest.raises(UserError, match=r"one.*can't be read: No such file"):
        folder.read(entry)
    path.write_bytes(good)
    assert folder.read(entry).equals(BATCH)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SpillFolder(tmp_path)

    def full(path: Path, data: memoryview) -> None:
        path.write_bytes(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spill_files, "_write", full)
    with pytest.raises(UserError, match=r"one.*No space left on device"):
        folder.write("one", BATCH)
    assert folder.names() == set()

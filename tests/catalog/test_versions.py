"""The version of a table that a run has read."""

import os

import pytest

from thalweg.catalog.model import Source, Stream
from thalweg.catalog.versions import Kept, Version, digest_of


def table_at(path):
    source = Source(format="csv", options={"path": str(path)})
    return Stream.of_table("p", "here", {"k": "int"}, source)


def test_a_digest_tells_when_files_have_changed(tmp_path):
    (tmp_path / "p" / "day=1").mkdir(parents=True)
    file = tmp_path / "p" / "day=1" / "a.csv"
    file.write_text("1\n")
    before = digest_of(table_at(tmp_path / "p"))
    assert before == digest_of(table_at(f"file://{tmp_path}/p"))
    (tmp_path / "p" / "b.csv").write_text("2\n")
    more = digest_of(table_at(tmp_path / "p"))
    (tmp_path / "p" / "b.csv").unlink()
    assert digest_of(table_at(tmp_path / "p")) == before != more
    os.utime(file, ns=(0, 0))  # written anew, with as many bytes
    assert digest_of(table_at(tmp_path / "p")) != before
    assert digest_of(table_at(file)) != digest_of(table_at(tmp_path / "p"))


@pytest.mark.parametrize("path", ["s3a://bucket/p", "nowhere", ""])
def test_of_what_is_no_local_file_there_is_no_digest(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert digest_of(table_at(path)) is None


def test_a_version_is_noted_and_read(tmp_path):
    kept = Kept.of(tmp_path, "p")
    assert kept.version is None
    kept.folder.mkdir(parents=True)
    kept.note(version := Version("2026-11-19T12:00:00+00:00", 3, "abc"))
    assert Kept.of(tmp_path, "p").version == version
    (kept.folder / "version.json").write_text('{"read": 1')
    assert kept.version is None

"""Spark's checkpoint of a run: it is mended after a power cut, its logs are checked and kept short."""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from thalweg.errors import UserError
from thalweg.files import remove_all, write_text
from thalweg.storage import Location, RemotePath

_PATTERN = frozenset("*?[]{}\\")


def mend(checkpoint: Location) -> None:
    """Remove what a power cut or a kill has left half written; Spark then writes it again.

    Spark does not wait for the disk. A run does so in each batch, after its tasks and before anything of it
    goes to another site. So what can be incomplete is the commit of the last batch, or all of a batch from
    which nobody has read anything. Before it plans its first batch, Spark refuses a folder in which there is
    anything, also a file that it was writing when it was killed.
    """
    commits = dict(_logs(checkpoint / "commits"))
    if commits and not _whole(commits[max(commits)]):
        commits.pop(max(commits)).unlink()
    identity = checkpoint / "metadata"
    if not commits and identity.exists() and not _is_json(_text(identity)):
        remove_all(checkpoint)
        return
    after = max(commits, default=-1)
    planned = [log for n, log in _logs(checkpoint / "offsets") if n > after]
    read = [log for source in checkpoint.glob("sources/*") for n, log in _logs(source) if n > after]
    if cut := [log for log in planned + read if not _whole(log)]:
        for log in {*planned, *cut}:
            log.unlink()
    if not commits and (cut or not planned):
        remove_all(checkpoint, ignore_errors=True)
        return
    _forget_unplanned(checkpoint)
    if isinstance(checkpoint, RemotePath):
        return  # the files of the state are whole
    for file in checkpoint.glob("state/**/*"):
        if file.is_file() and (not file.stat().st_size or _is_cut_snapshot(file)):
            file.unlink()


def _forget_unplanned(checkpoint: Location) -> None:
    """Remove what sources noted for a batch that was not planned any more.

    Otherwise the next batch would have these files and the next ones together: more than `maxFilesPerTrigger`
    says, and other tuples would be late. A log that holds those of earlier batches, too, stays.
    """
    batches = dict(_logs(checkpoint / "offsets"))
    if not batches:
        return
    for number, line in enumerate(_text(batches[max(batches)]).splitlines()[2:]):
        offset = json.loads(line) if line.startswith("{") else {}
        if not isinstance(last := offset.get("logOffset"), int):
            continue
        for n, log in _logs(checkpoint / "sources" / str(number)):
            if n > last and not log.name.endswith(".compact"):
                log.unlink()


def _logs(folder: Location) -> Iterator[tuple[int, Location]]:
    """Spark's logs in a folder, by batch: N, or N.compact."""
    for file in folder.glob("[0-9]*"):
        if (number := file.name.removesuffix(".compact")).isdecimal():
            yield int(number), file


def _whole(log: Location) -> bool:
    """A log has a version and then lines of JSON, or a dash for a source that has brought nothing."""
    version, *lines = _text(log).splitlines() or [""]
    return version.startswith("v") and all(line == "-" or _is_json(line) for line in lines[-1:])


def _text(file: Location) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_cut_snapshot(file: Path) -> bool:
    """Snapshots are written beside the batches. Without one, Spark begins with the one before."""
    return file.suffix == ".zip" and not zipfile.is_zipfile(file)


class SourceLogs:
    """Spark's logs of the files that sources have read: checked for names as they come, and kept short.

    Spark never forgets a file, and each tenth log (N.compact) has all of them. Only files that are still
    there can be read again, so the names of the others can go.
    """

    def __init__(self, checkpoint: Location, worth: int = 1 << 20) -> None:
        self._logs = checkpoint / "sources"
        self._seen: set[Location] = set()
        self._worth = worth
        """A log of so many bytes is looked through for names that can go."""
        self._lengths: dict[Location, int] = {}
        """Of the logs of a source, when they were last looked through."""

    def check(self) -> None:
        """Refuse a batch that has read a file whose name Spark takes for a pattern; shorten the logs."""
        found: set[Location] = set(self._logs.glob("*/[0-9]*"))
        for log in found - self._seen:
            text = log.read_text()
            for path in re.findall(r'"path":"([^"]*)"', text):
                check_name(unquote(path), "rename it, and start in a new folder")
            if len(text) > max(self._worth, 2 * self._lengths.get(log.parent, 0)):
                self._lengths[log.parent] = _shorten(log, text)
        self._seen = found


def _shorten(log: Location, text: str) -> int:
    """Leave out the files of this computer that are gone; how long the log is then.

    A folder without a single known file may be one that is not mounted now: its names stay. So does a log
    with a checksum beside it, as a cluster writes it.
    """
    if log.with_name(f".{log.name}.crc").exists():
        return len(text)
    version, *lines = text.splitlines()
    files = {line: Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines}
    local = {line: file for line, file in files.items() if '"path":"file:' in line}
    there: set[Path] = set()
    for folder in {file.parent for file in local.values()}:
        with contextlib.suppress(OSError):
            there.update(folder.iterdir())
    mounted = {file.parent for file in local.values() if file in there}
    gone = {line for line, file in local.items() if file.parent in mounted and file not in there}
    shorter = "\n".join([version, *(line for line in lines if line not in gone)])
    if gone:
        write_text(log, shorter)
    return len(shorter)


def check_name(path: str, remedy: str) -> None:
    """The characters `* ? [ ] { }` and the backslash make a name a pattern."""
    if not _PATTERN.isdisjoint(path.rsplit("/", 1)[-1]):
        raise UserError(
            "Spark takes this name for a pattern, and would read other files twice",
            where=path,
            remedy=f"{remedy}: no * ? [ ] {{ }} or \\",
        )

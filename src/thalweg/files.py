"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A draft beside the file, which becomes the file when the block ends without an error.

    Its name begins with a dot, so Spark does not read it, and has the file's suffix.
    """
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file that a crash of the machine does not leave half written."""
    with whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

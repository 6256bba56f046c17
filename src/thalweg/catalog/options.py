"""Options of sources and sinks in a catalog, whose paths are relative to the catalog's folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from thalweg.catalog.document import Place

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def read_options(place: Place, folder: Path) -> dict[str, str]:
    """The options of a source or sink; a relative path is relative to the folder."""
    options: dict[str, str] = {}
    seen: set[str] = set()
    for name, entry in place.mapping().items():
        if name.lower() in seen:
            raise entry.error(f"the option {name!r} is here twice", "Spark ignores the case of options")
        seen.add(name.lower())
        if name.lower() == "path":
            options[name] = _path(entry, folder)
        else:
            value = entry.scalar()
            options[name] = str(value).lower() if isinstance(value, int) else entry.raw()
    return options


def _path(place: Place, folder: Path) -> str:
    """One path or glob, or a list of them, which becomes one glob: /data/{a,b}."""
    if not place.is_list:
        text = place.raw()
        if not text.strip():
            raise place.error("the path is empty")
        return text if _SCHEME.match(text) else os.path.join(folder, text)  # noqa: PTH118 - keeps a final /
    paths = [_path(item, folder) for item in place.items()]
    if not paths:
        raise place.error("the list of paths is empty")
    if len(paths) == 1:
        return paths[0]
    if any(_SCHEME.match(p) or set(p) & set("{},") for p in paths):
        raise place.error("a list holds plain paths", "for URIs write one path with a glob")
    root = os.path.commonpath([Path(p).parent for p in paths])
    return f"{root.rstrip('/')}/{{{','.join(os.path.relpath(p, root) for p in paths)}}}"

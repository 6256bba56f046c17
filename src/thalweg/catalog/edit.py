"""Writes statistics into a catalog file. Everything else in it stays as it is written, comments too.

The YAML reader says where each value begins and ends in the text. Numbers are replaced in place, new keys are
added after the last one, and the result is read back before it takes the place of the file.
"""

from __future__ import annotations

import json
import re
import shutil
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from thalweg.catalog.document import compose
from thalweg.catalog.load import load
from thalweg.catalog.model import Catalog, JoinSelectivity, Stats
from thalweg.errors import UserError
from thalweg.files import unusable, whole

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*|[0-9]+(\.[0-9]+){2,}")
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_WIDEST = 100
_MOST_ON_A_LINE = 8

Tree = Mapping[Any, "Tree | float"]


def check_file(catalog: Catalog) -> None:
    """Refuses a catalog that has no file to write into."""
    if not catalog.path:
        raise UserError("the catalog was not read from a file", remedy="give the path of one to write into")


def write(catalog: Catalog, stats: Mapping[str, Stats], joins: Iterable[JoinSelectivity] = ()) -> bool:
    """Puts statistics of streams and joins into the catalog's file; says whether that changed it.

    What is unknown in `stats` stays as the file has it. The values of a column in `rates` are replaced.
    """
    check_file(catalog)
    path, joins = Path(catalog.path).resolve(), tuple(joins)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
        edited = _Text(text, catalog.path).with_statistics(stats, joins)
        if edited is None:
            return False
        with whole(path) as draft:
            draft.write_bytes((BOM_UTF8 if data.startswith(BOM_UTF8) else b"") + edited.encode())
            shutil.copymode(path, draft)
            _check(draft, catalog, stats, joins)
        return True
    except OSError as error:
        raise unusable(path, error, "the statistics can't be written") from error


def updated(catalog: Catalog, stats: Mapping[str, Stats], joins: Iterable[JoinSelectivity] = ()) -> Catalog:
    """The catalog with these statistics: what `write` makes of its file."""
    streams = {
        name: stream.model_copy(update={"stats": _merged(stream.stats, stats[name])})
        if name in stats
        else stream
        for name, stream in catalog.streams.items()
    }
    known = {frozenset((j.left, j.right)): j for j in catalog.joins}
    for join in joins:
        pair = frozenset((join.left, join.right))
        old = known.get(pair, join)
        known[pair] = old.model_copy(update={"selectivity": join.selectivity})
    return catalog.model_copy(update={"streams": streams, "joins": tuple(known.values())})


def _merged(old: Stats, new: Stats) -> Stats:
    """A column whose distinct values are known anew has no other named values than the new ones."""
    rates = {column: r for column, r in old.rates.items() if column not in new.distinct}
    return Stats(
        rows=old.rows,
        rate=old.rate if new.rate is None else new.rate,
        bytes=old.bytes if new.bytes is None else new.bytes,
        widths={**old.widths, **new.widths},
        distinct={**old.distinct, **new.distinct},
        rates={**rates, **new.rates},
    )


def _check(
    draft: Path, catalog: Catalog, stats: Mapping[str, Stats], joins: Sequence[JoinSelectivity]
) -> None:
    written = load(draft).model_copy(update={"path": catalog.path})
    if written != updated(catalog, stats, joins):
        raise UserError(
            "the statistics can't be written into this file",
            where=catalog.path,
            remedy="has it changed meanwhile? Otherwise write them by hand",
        )


class _Text:
    """The text of a catalog, and the changes to make to it."""

    def __init__(self, text: str, shown: str) -> None:
        self.line_end = "\r\n" if "\r\n" in text else "\n"
        self.text = text if text.endswith("\n") else text + self.line_end
        self.shown = shown
        self.top = compose(self.text, shown)
        self.changes: list[tuple[int, int, str]] = []
        self.kept: dict[int, list[Any]] = {}  # entries of mappings that others are taken out of
        self.shared: set[int] = set()
        self._find_shared(self.top, set())

    def with_statistics(self, stats: Mapping[str, Stats], joins: Sequence[JoinSelectivity]) -> str | None:
        """The text with these statistics; None where it has them already."""
        streams = self._entry(self.top, "streams")
        for name, known in stats.items():
            stream, wanted = self._entry(streams, name), _tree(known)
            old = self._entry(stream, "stats")
            if old is None:
                self._add(stream, {"stats": wanted} if wanted else {})
            else:
                self._drop_rates(old, known)
                self._merge(old, wanted)
        self._set_joins(joins)
        text = self.text
        # What is added at one place comes in the order of adding: of an inner mapping first.
        for start, stop, _, new in sorted(
            ((*c[:2], n, c[2]) for n, c in enumerate(self.changes)), reverse=True
        ):
            text = text[:start] + new + text[stop:]
        return text if self.changes else None

    def _find_shared(self, node: Any, seen: set[int]) -> None:
        """Values that the file has in one place and uses in several: a change would be one of all."""
        if id(node) in seen:
            self.shared.add(id(node))
            return
        seen.add(id(node))
        for child in _children(node):
            self._find_shared(child, seen)

    def _own(self, node: Any) -> Any:
        if id(node) in self.shared:
            raise UserError(
                "the statistics can't be written where the file has an alias (*name)",
                where=f"{self.shown}, line {node.start_mark.line + 1}",
                remedy="write the value out in each place",
            )
        return node

    def _entry(self, mapping: Any, name: Any, exact: bool = False) -> Any:
        return next((self._own(value) for key, value in mapping.value if _is(key, name, exact)), None)

    def _drop_rates(self, stats: Any, known: Stats) -> None:
        """Takes out the rates of values that are no longer named, and of columns without any."""
        rates = self._entry(stats, "rates")
        if rates is None:
            return
        measured = [key for key, _ in rates.value if any(_is(key, c) for c in known.distinct)]
        gone = [key for key in measured if not any(_is(key, c) for c in known.rates)]
        if len(gone) == len(rates.value) and not known.rates:
            self._remove(stats, [key for key, _ in stats.value if _is(key, "rates")])
            return
        self._remove(rates, gone)
        for column, new in known.rates.items():
            by_value = self._entry(rates, column)
            if by_value is not None:
                named = [key for key, _ in by_value.value if any(_is(key, v, True) for v in new)]
                self._remove(by_value, [key for key, _ in by_value.value if key not in named])

    def _merge(self, mapping: Any, wanted: Tree, path: tuple[Any, ...] = ()) -> None:
        missing = {}
        for key, value in wanted.items():
            old = self._entry(mapping, key, exact=path[:1] == ("rates",) and len(path) == 2)
            if old is None:
                missing[key] = value
            elif isinstance(value, Mapping):
                self._merge(old, value, (*path, key))
            elif _number(old) != value:
                self.changes.append((old.start_mark.index, old.end_mark.index, _scalar(value)))
        self._add(mapping, missing)

    def _set_joins(self, joins: Sequence[JoinSelectivity]) -> None:
        if not joins:
            return
        old = self._entry(self.top, "joins")
        known = {} if old is None else {self._pair(item): item for item in old.value}
        new = []
        for join in joins:
            pair = frozenset((_lowered(join.left), _lowered(join.right)))
            if pair in known:
                self._merge(self._own(known[pair]), {"selectivity": join.selectivity})
            else:
                left, right = (_scalar(".".join(side)) for side in (join.left, join.right))
                new.append(f"{{left: {left}, right: {right}, selectivity: {_scalar(join.selectivity)}}}")
        if not new:
            return
        if old is None and self.top.flow_style:
            self._insert(self.top, [f"joins: [{', '.join(new)}]"])
        elif old is None:
            self._insert(self.top, ["joins:", *(f"  - {item}" for item in new)])
        else:
            self._insert(old, new if old.flow_style else [f"- {item}" for item in new])

    def _pair(self, item: Any) -> frozenset[tuple[str, str]]:
        sides = (self._entry(item, side).value.strip().partition(".") for side in ("left", "right"))
        return frozenset((stream, column.lower()) for stream, _, column in sides)

    def _add(self, mapping: Any, entries: Tree) -> None:
        """Adds entries to a mapping, written as it is: in braces or on lines."""
        if not entries:
            return
        if mapping.flow_style:
            self._insert(mapping, [f"{_scalar(k)}: {_braces(v)}" for k, v in entries.items()])
        else:
            self._insert(mapping, _lines(entries))

    def _insert(self, node: Any, new: Sequence[str]) -> None:
        """Adds entries after the last one of a mapping or list; `new` are lines where it is on lines."""
        if not node.flow_style:
            first = node.value[0][0] if isinstance(node, MappingNode) else node
            indent, at = " " * first.start_mark.column, self._next_line(_end(node))
            self.changes.append((at, at, "".join(f"{indent}{line}{self.line_end}" for line in new)))
        elif kept := self.kept.get(id(node), node.value):
            at = _end(kept[-1][1] if isinstance(node, MappingNode) else kept[-1])
            self.changes.append((at, at, ", " + ", ".join(new)))
        else:
            at = node.start_mark.index + 1
            self.changes.append((at, at, ", ".join(new)))

    def _remove(self, mapping: Any, keys: Sequence[Any]) -> None:
        if not keys:
            return
        kept = self.kept[id(mapping)] = [pair for pair in mapping.value if pair[0] not in keys]
        for n, (key, value) in enumerate(mapping.value):
            if key not in keys:
                continue
            start, stop = key.start_mark.index, _end(value)
            if not mapping.flow_style:
                start, stop = start - key.start_mark.column, self._next_line(stop)
            elif n + 1 < len(mapping.value):
                stop = mapping.value[n + 1][0].start_mark.index
            if mapping.flow_style and kept and start > _end(kept[-1][1]):  # with the comma before it
                start, stop = max(_end(kept[-1][1]), _end(mapping.value[n - 1][1])), _end(value)
            self.changes.append((start, stop, ""))

    def _next_line(self, index: int) -> int:
        if index and self.text[index - 1] == "\n":  # texts of several lines end there
            return index
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1


def _children(node: Any) -> list[Any]:
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _end(node: Any) -> int:
    """Where a value ends; the reader lets one on several lines end with the comments after it."""
    if isinstance(node, ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    return max(_end(child) for child in _children(node)[-2:])


def _is(key: Any, name: Any, exact: bool = False) -> bool:
    """Whether a key of the file is this name; the case of columns does not matter, that of values does."""
    text = str(key.value)
    if isinstance(name, str):
        return text == name or (not exact and text.lower() == name.lower())
    try:
        return bool(int(text) == name)
    except ValueError:
        return False


def _lowered(side: tuple[str, str]) -> tuple[str, str]:
    return side[0], side[1].lower()


def _number(node: Any) -> float | None:
    try:
        return float(node.value)
    except (TypeError, ValueError):
        return None


def _tree(stats: Stats) -> dict[str, Any]:
    """The known statistics, as the file nests them."""
    known = stats.model_dump()
    return {key: value for key, value in known.items() if value is not None and value != {}}


def _lines(entries: Tree, deeper: str = "") -> list[str]:
    found = []
    for key, value in entries.items():
        line = f"{deeper}{_scalar(key)}: {_braces(value)}"
        if isinstance(value, Mapping) and (
            len(line) > _WIDEST
            or len(value) > _MOST_ON_A_LINE
            or any(isinstance(v, Mapping) for v in value.values())
        ):
            found += [f"{deeper}{_scalar(key)}:", *_lines(value, deeper + "  ")]
        else:
            found.append(line)
    return found


def _braces(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_braces(v)}" for k, v in value.items()) + "}"
    return _scalar(value)


def _scalar(value: str | float) -> str:
    """A number or a text as YAML has it.

    >>> [_scalar(v) for v in (24.0, 0.5, 1e-07, "10.1.0.1", "no", "a: b", 7)]
    ['24', '0.5', '1.0e-07', '10.1.0.1', '"no"', '"a: b"', '7']
    """
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
        return value if plain else _quoted(value)
    if value == int(value):
        return str(int(value))
    text = repr(value)
    return re.sub(r"^(\d+)e", r"\1.0e", text)


def _quoted(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))

"""A YAML document whose every value knows its place in the file."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from thalweg.errors import UserError
from thalweg.names import suggestion

_TAG = "tag:yaml.org,2002:"
_KINDS = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}

LONGEST = 500_000
"""The most characters of a catalog; the YAML reader takes seconds for more."""

LARGEST = 1e15
"""The largest number in a catalog; with larger ones costs would be beyond all numbers."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Place:
    """A value of the document: its place in the file, and readers for each type."""

    file: str
    path: str
    line: int
    node: Any

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}" + (f": {self.path}" if self.path else "")

    def error(self, what: str, remedy: str | None = None) -> UserError:
        return UserError(what, where=self.where, remedy=remedy)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> UserError:
        """The error for a name that does not exist, with the nearest that does."""
        return self.error(f"unknown {what} {name[:80]!r}", suggestion(name, known))

    def mapping(
        self, keys: Collection[str] | None = None, required: Collection[str] = ()
    ) -> dict[str, Place]:
        """Its entries by key; any key is welcome unless `keys` says which."""
        if not isinstance(self.node, MappingNode):
            raise self.error(f"expected a mapping (key: value), found {self.kind}")
        found: dict[str, Place] = {}
        for key, value in self.node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or _tag(key) == "null":
                raise Place(self.file, self.path, line, key).error("a key must be a name")
            name = str(key.value)
            entry = Place(self.file, f"{self.path}.{name}" if self.path else name, line, value)
            if keys is not None and name not in keys:
                raise entry.unknown("key", name, keys)
            if name in found:
                raise entry.error(
                    f"the key {name!r} is here twice", f"the first is on line {found[name].line}"
                )
            found[name] = entry
        for name in required:
            if name not in found:
                raise self.error(f"the key {name!r} is missing")
        return found

    def pairs(self) -> list[tuple[Place, Place]]:
        """Its entries as pairs, for mappings whose keys are values themselves."""
        self.mapping()
        return [
            (
                Place(self.file, self.path, k.start_mark.line + 1, k),
                Place(self.file, f"{self.path}.{k.value}", k.start_mark.line + 1, v),
            )
            for k, v in self.node.value
        ]

    def items(self) -> list[Place]:
        """The elements of a list."""
        if not isinstance(self.node, SequenceNode):
            raise self.error(f"expected a list, found {self.kind}")
        return [
            Place(self.file, f"{self.path}[{i}]", node.start_mark.line + 1, node)
            for i, node in enumerate(self.node.value)
        ]

    @property
    def kind(self) -> str:
        """Its type, in words."""
        if isinstance(self.node, ScalarNode):
            return _KINDS.get(_tag(self.node), "text")
        return "a list" if isinstance(self.node, SequenceNode) else "a mapping"

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, SequenceNode)

    def scalar(self) -> Scalar:
        """A single value, typed as YAML 1.2 types it; dates stay text."""
        if not isinstance(self.node, ScalarNode):
            raise self.error(f"expected a single value, found {self.kind}")
        tag, text = _tag(self.node), str(self.node.value)
        try:
            match tag:
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return int(text, 0) if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(text)
                case "float":
                    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
                case "str" | "timestamp":
                    return text
        except ValueError as error:
            raise self.error(f"{text[:40]!r} is not a number that can be read") from error
        raise self.error(f"the tag {str(self.node.tag)[:40]!r} has no meaning here", "leave it out")

    def raw(self) -> str:
        """A single value exactly as it is written, whatever type YAML sees in it."""
        if self.scalar() is None:
            raise self.error("expected text, found nothing")
        return str(self.node.value)

    def text(self) -> str:
        value = self.scalar()
        if not isinstance(value, str):
            raise self.error(
                f"expected text, found {self.kind}", f"write '{value}'" if value is not None else None
            )
        if not value.strip():
            raise self.error("expected text, found nothing")
        return value

    def number(self, *, positive: bool = False, most: float = LARGEST) -> float:
        """A number that is not negative, and of a size that costs can be computed with."""
        value = self.scalar()
        if isinstance(value, bool) or not isinstance(value, int | float):
            shown = f" {value[:40]!r}" if isinstance(value, str) else ""
            raise self.error(f"expected a number, found {self.kind}{shown}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"the number {str(self.node.value)[:40]} is not finite")
        if number < 0 or (positive and number == 0):
            raise self.error(f"{number:g} must be {'greater than zero' if positive else 'zero or more'}")
        if number > most:
            raise self.error(f"{number:g} must be between 0 and {most:g}")
        if positive and number < 1 / LARGEST:  # it is divided by
            raise self.error(f"{number:g} is too small", f"the smallest is {1 / LARGEST:g}")
        return number


def read(path: Path, shown: str, what: str = "catalog", needs: str = "sites and streams") -> Place:
    """Read a file that holds one YAML 1.2 document; messages call it by its kind."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"there is no file {shown!r}") from None
    except IsADirectoryError:
        raise UserError(f"{shown!r} is a directory", remedy="name the YAML file in it") from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text at byte {error.start}", where=shown) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{shown!r} can't be read: {reason}") from None
    return parse(text, shown, what, needs)


def parse(text: str, shown: str, what: str = "catalog", needs: str = "sites and streams") -> Place:
    """Reads the text of one YAML 1.2 document; messages call it by its kind, and its place `shown`."""
    if len(text) > LONGEST:
        raise UserError(
            f"the {what} has {len(text):,} characters, and at most {LONGEST:,} are read",
            where=shown,
            remedy="leave out streams, columns and values that no query needs",
        )
    node = compose(text, shown)
    if node is None or (isinstance(node, ScalarNode) and _tag(node) == "null"):
        raise UserError(f"the {what} is empty", where=shown, remedy=f"it needs at least {needs}")
    return Place(shown, "", node.start_mark.line + 1, node)


def compose(text: str, shown: str) -> Any:
    """The nodes of a document, each with its place in the text."""
    try:
        reader = YAML(typ="safe", pure=True)
        reader.composer.warn_double_anchors = False  # YAML 1.2 lets a name be anchored again
        return reader.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{shown}, line {mark.line + 1}, column {mark.column + 1}" if mark else shown
        problem = " ".join(str(p) for p in (error.problem, error.context) if p)
        remedy = "YAML is indented with spaces" if "'\\t'" in problem else None
        raise UserError(f"not valid YAML: {problem}", where=where, remedy=remedy) from None
    except RecursionError:
        raise UserError("nested too deeply", where=shown) from None
    except Exception as error:  # whatever else the YAML reader makes of arbitrary bytes
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"not valid YAML: {problem[:200]}", where=shown) from None


def _tag(node: Any) -> str:
    return str(node.tag).removeprefix(_TAG)

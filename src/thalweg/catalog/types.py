"""Spark SQL's type names, read without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from thalweg.errors import UserError

_PLAIN = {
    name: canonical
    for canonical, names in {
        "boolean": "boolean",
        "tinyint": "tinyint byte",
        "smallint": "smallint short",
        "int": "int integer",
        "bigint": "bigint long",
        "float": "float real",
        "double": "double",
        "date": "date",
        "timestamp": "timestamp_ltz",
        "timestamp_ntz": "timestamp_ntz",
        "binary": "binary",
        "variant": "variant",
        "void": "void",
    }.items()
    for name in names.split()
}
_DECIMAL = frozenset({"decimal", "dec", "numeric"})
_OTHERS = (
    "string",
    "timestamp",
    "time",
    "char",
    "varchar",
    "interval",
    "array",
    "map",
    "struct",
    "geometry",
    "geography",
)
_ELSEWHERE = {
    "bool": "boolean",
    "text": "string",
    "str": "string",
    "uuid": "string",
    "json": "string",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "number": "decimal(38, 0)",
    "bytes": "binary",
    "blob": "binary",
    "list": "array<...>",
    "object": "struct<...>",
}
_INTERVALS = (("year", "month"), ("day", "hour", "minute", "second"))
_DEEPEST = 32
_TOKEN = re.compile(r"\s*(?:(\w+)|(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\S))")


@dataclass(frozen=True)
class SparkType:
    """A Spark SQL type; `parts` are the types inside an array, a map or a struct's fields."""

    name: str
    arguments: tuple[int | str, ...] = ()
    parts: tuple[SparkType, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """The type as Spark SQL writes it.

        >>> parse_type("Struct<a: LONG, b: array<dec(4)>>").sql
        'struct<`a`: bigint, `b`: array<decimal(4, 0)>>'
        """
        if self.name == "struct":
            pairs = zip(self.fields, self.parts, strict=True)
            return "struct<" + ", ".join(f"{_quoted(n)}: {t.sql}" for n, t in pairs) + ">"
        if self.parts:
            return f"{self.name}<{', '.join(t.sql for t in self.parts)}>"
        if self.name == "interval":
            return " ".join(("interval", *(" to ".join(map(str, self.arguments)),))).strip()
        if self.name == "string" and self.arguments:
            return f"string collate {self.arguments[0]}"
        return self.name + (f"({', '.join(map(str, self.arguments))})" if self.arguments else "")

    def field(self, name: str) -> tuple[str, SparkType] | None:
        """A struct's field by its name in any case, with the spelling that was declared."""
        for declared, part in zip(self.fields, self.parts, strict=False):
            if declared.lower() == name.lower():
                return declared, part
        return None

    def without_lengths(self) -> SparkType:
        """The type with strings in place of char and varchar.

        >>> parse_type("array<char(3)>").without_lengths().sql
        'array<string>'
        """
        if self.name in ("char", "varchar"):
            return SparkType("string")
        return replace(self, parts=tuple(part.without_lengths() for part in self.parts))

    def within(self) -> Iterator[SparkType]:
        """This type and every type inside it."""
        yield self
        for part in self.parts:
            yield from part.within()


def parse_type(text: str, *, where: str | None = None) -> SparkType:
    """Read a Spark SQL type name.

    >>> parse_type("map<string, timestamp_ntz>").parts[1].name
    'timestamp_ntz'
    """
    return _Reader(text, where).whole()


class _Reader:
    def __init__(self, text: str, where: str | None) -> None:
        self.text, self.where = text, where
        self.tokens = [m.group().strip() for m in _TOKEN.finditer(text.rstrip())]
        self.at = 0

    def whole(self) -> SparkType:
        if not self.tokens:
            raise self.error("the type is empty", "write a Spark SQL type such as string or bigint")
        found = self.type(0)
        if self.at < len(self.tokens):
            raise self.error(f"unexpected {self.peek()!r} in the type {self.shown!r}")
        return found

    def type(self, depth: int) -> SparkType:
        if depth > _DEEPEST:
            raise self.error("the type is nested too deeply", f"at most {_DEEPEST} levels")
        written = self.next("a type")
        name = written.lower()
        if name in _PLAIN:
            return SparkType(_PLAIN[name])
        if name in _DECIMAL:
            return self.decimal()
        if name in ("char", "character", "varchar"):
            return self.sized("varchar" if name == "varchar" else "char")
        if name == "string":
            return SparkType("string", (self.next("a collation"),) if self.take("collate") else ())
        if name == "timestamp":
            return self.timestamp()
        if name == "time":
            digits = self.numbers() or (6,)
            if len(digits) > 1 or digits[0] > 6:
                raise self.error(f"time has 0 to 6 digits of a second, not {self.shown!r}")
            return SparkType("time", digits)
        if name == "interval":
            return self.interval()
        if name in ("geometry", "geography"):
            self.expect("(", name)
            srid = self.next("a spatial reference")
            self.expect(")", name)
            return SparkType(name, (srid.lower(),))
        if name in ("array", "map"):
            self.expect("<", name)
            parts = [self.type(depth + 1)]
            if name == "map":
                self.expect(",", "a map's key type")
                parts.append(self.type(depth + 1))
            self.expect(">", name)
            return SparkType(name, parts=tuple(parts))
        if name == "struct":
            return self.struct(depth)
        raise self.unknown(written)

    def timestamp(self) -> SparkType:
        if self.take("without"):
            self.expect("time", "without")
            self.expect("zone", "time")
            return SparkType("timestamp_ntz")
        if self.take("with"):
            self.expect("local", "with")
            self.expect("time", "local")
            self.expect("zone", "time")
        elif self.numbers() not in ((), (6,)):
            raise self.error(f"a timestamp has 6 digits of a second, not {self.shown!r}")
        return SparkType("timestamp")

    def decimal(self) -> SparkType:
        numbers = self.numbers()
        precision, scale, *more = numbers + (10, 0)[len(numbers) :]
        if more or not 1 <= precision <= 38 or scale > precision:
            raise self.error(
                f"decimal({', '.join(map(str, numbers))}) is out of range",
                "a decimal has 1 to 38 digits, at most all of them after the point",
            )
        return SparkType("decimal", (precision, scale))

    def sized(self, name: str) -> SparkType:
        size = self.numbers()
        if len(size) != 1 or size[0] < 1:
            raise self.error(f"{name} needs a length", f"write {name}(20), or string for any length")
        return SparkType(name, size)

    def interval(self) -> SparkType:
        for units in _INTERVALS:
            for i, unit in enumerate(units):
                if self.take(unit):
                    if not self.take("to"):
                        return SparkType("interval", (unit,))
                    last = self.next("a unit").lower()
                    if last not in units[i + 1 :]:
                        raise self.error(
                            f"there is no type {self.shown!r}", f"after {unit} to: {units[i + 1 :]}"
                        )
                    return SparkType("interval", (unit, last))
        return SparkType("interval")

    def struct(self, depth: int) -> SparkType:
        names: list[str] = []
        parts: list[SparkType] = []
        self.expect("<", "struct")
        while not self.take(">"):
            if names:
                self.expect(",", "a struct's field")
            name = self.next("a field name")
            if not re.fullmatch(r"\d*[^\W\d]\w*|`.+`", name, re.DOTALL):
                raise self.error(f"{name!r} is not a field name in the type {self.shown!r}")
            names.append(name[1:-1].replace("``", "`") if name[0] == "`" else name)
            self.take(":")
            parts.append(self.type(depth + 1))
            if self.take("not"):
                self.expect("null", "not")
            if self.take("comment"):
                self.next("a comment")
        lower = [n.lower() for n in names]
        if len(set(lower)) < len(lower):
            raise self.error(f"two fields of one name in the type {self.shown!r}")
        return SparkType("struct", parts=tuple(parts), fields=tuple(names))

    def numbers(self) -> tuple[int, ...]:
        if not self.take("("):
            return ()
        found = []
        while True:
            number = self.next("a number")
            if not (number.isascii() and number.isdigit() and len(number) < 10):
                raise self.error(f"{number[:20]!r} is not a length in the type {self.shown!r}")
            found.append(int(number))
            if self.take(")"):
                return tuple(found)
            self.expect(",", "a number")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, word: str) -> bool:
        if self.peek().lower() == word:
            self.at += 1
            return True
        return False

    def next(self, what: str) -> str:
        if self.at == len(self.tokens):
            raise self.ended(what)
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, word: str, after: str) -> None:
        if not self.take(word):
            if self.at == len(self.tokens):
                raise self.ended(repr(word))
            raise self.error(
                f"expected {word!r} after {after} in the type {self.shown!r}, found {self.peek()!r}"
            )

    @property
    def shown(self) -> str:
        return self.text if len(self.text) <= 60 else self.text[:57] + "..."

    def ended(self, what: str) -> UserError:
        remedy = None
        if any(c in self.text for c in "<("):
            remedy = "in YAML's {...} form, a type that has a comma needs quotes: 'map<int, string>'"
        return self.error(f"the type {self.shown!r} ends where {what} was expected", remedy)

    def unknown(self, name: str) -> UserError:
        lower = name.lower()
        known = sorted({*_PLAIN, *_DECIMAL, *_OTHERS})
        close = [_ELSEWHERE[lower]] if lower in _ELSEWHERE else get_close_matches(lower, known, 1)
        remedy = (
            f"did you mean {close[0]!r}?"
            if close
            else "for example string, bigint, double, timestamp, array<int>"
        )
        return self.error(f"Spark has no type {name[:40]!r}", remedy)

    def error(self, what: str, remedy: str | None = None) -> UserError:
        return UserError(what, where=self.where, remedy=remedy)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

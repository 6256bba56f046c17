"""The model of a query: streams with windows, the equalities that connect them, output columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby

import sqlglot
from sqlglot import exp

from thalweg.names import SLOT

RESULT_TIME = "result_time"
"""A column every query may select: the greatest time among a result's members."""


class WindowKind(StrEnum):
    RANGE = "range"
    ROWS = "rows"
    TUMBLE = "tumble"
    UNBOUNDED = "unbounded"
    ALWAYS = "always"


@dataclass(frozen=True)
class Window:
    """How long a tuple stays alive.

    RANGE: a span of microseconds. ROWS: until so many later tuples have come; with `by`, so many with the
    same values of these columns. TUMBLE: until the end of its tumbling window of so many microseconds; these
    begin at 1970-01-01T00:00:00Z. UNBOUNDED: for ever. ALWAYS: before its time, too, as a row of a table is.

    >>> str(Window(WindowKind.ROWS, 1, by=("k",)))
    'rows 1 by k'
    """

    kind: WindowKind
    size: int = 0
    slide: int | None = None
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What a plan calls it; its slide is not part of that."""
        if self.kind is WindowKind.ALWAYS:
            return str(self.kind)
        if SLOT in self.by:
            return "version"
        return f"{self.kind} {self.size}" + (f" by {', '.join(self.by)}" if self.by else "")

    def __post_init__(self) -> None:
        if self.kind is WindowKind.ROWS and self.size < 1:
            raise ValueError("a window of rows holds at least one row")
        if self.kind is WindowKind.TUMBLE and self.size < 1:
            raise ValueError("a tumbling window is longer than zero")
        if self.by and self.kind is not WindowKind.ROWS:
            raise ValueError("only a window of rows is counted by columns")
        if self.size < 0 or (self.slide is not None and self.slide <= 0):
            raise ValueError("a window can't be negative and a slide must be positive")


def quoted(name: str) -> str:
    """A name in backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Expr:
    """A deterministic Spark SQL expression; every column in it is written `alias`.`column`.

    >>> Expr("`a`.`x` + 1").columns
    (('a', 'x'),)
    """

    sql: str

    @classmethod
    def column(cls, alias: str, column: str) -> Expr:
        """A column of one alias.

        >>> Expr.column("a", "x").sql
        '`a`.`x`'
        """
        return cls(f"{quoted(alias)}.{quoted(column)}")

    @classmethod
    def constant(cls, alias: str, column: str) -> Expr:
        """A value that all tuples of an alias have: the key of a join without an equality.

        >>> Expr.constant("a", "x").sql, Expr.constant("a", "x").is_constant
        ('(`a`.`x` IS NULL AND FALSE)', True)
        """
        return cls(f"({quoted(alias)}.{quoted(column)}{_ALWAYS})")

    @property
    def is_constant(self) -> bool:
        return (
            self.sql.endswith(f"{_ALWAYS})") and _PLAIN.fullmatch(self.sql[1 : -len(_ALWAYS) - 1]) is not None
        )

    @property
    def tree(self) -> exp.Expression:
        """The expression as sqlglot reads it, a new one each time."""
        return _parse(self.sql)

    @cached_property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The (alias, column) pairs it reads, sorted; the result time has the alias ''."""
        if plain := _PLAIN.fullmatch(self.sql):
            return ((_unquoted(plain[1]), _unquoted(plain[2])),)
        return tuple(sorted({(alias, column) for alias, column, _, _ in _columns(self.sql)}))

    @cached_property
    def aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, _ in self.columns if alias)

    @property
    def plain_column(self) -> str | None:
        """The column's name, if the expression is nothing else.

        >>> Expr("`a`.`x`").plain_column, Expr("`a`.`x` + 1").plain_column
        ('x', None)
        """
        return _plain_column(self.sql)

    def rename(self, naming: Callable[[str, str], str]) -> str:
        """Its text with every column written as `naming(alias, column)` says; all else stays as it is.

        >>> Expr("`a`.`x` + `b`.`x`").rename(lambda alias, column: f"{alias}_{column}")
        'a_x + b_x'
        """
        text = self.sql
        for alias, column, start, end in sorted(_columns(self.sql), key=lambda c: -c[2]):
            text = text[:start] + naming(alias, column) + text[end + 1 :]
        return text


_ALWAYS = " IS NULL AND FALSE"
_PLAIN = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
"""A column and nothing more, which needs no parser."""


def _unquoted(name: str) -> str:
    return name.replace("``", "`")


def _parse(sql: str) -> exp.Expression:
    tree = sqlglot.parse_one(_SELECT + sql, dialect="spark")
    found: exp.Expression = tree.expressions[0]
    return found.pop()


@lru_cache(maxsize=4096)
def _plain_column(sql: str) -> str | None:
    if plain := _PLAIN.fullmatch(sql):
        return _unquoted(plain[2])
    tree = _parse(sql)
    return tree.name if isinstance(tree, exp.Column) else None


@lru_cache(maxsize=4096)
def _columns(sql: str) -> tuple[tuple[str, str, int, int], ...]:
    """Every column read, with its alias and where it begins and ends."""
    found = {}
    for node in _parse(sql).find_all(exp.Column):
        parts = node.parts[:2]
        start, end = (p - len(_SELECT) for p in (parts[0].meta["start"], parts[-1].meta["end"]))
        found[start] = (parts[0].name if len(parts) > 1 else "", parts[-1].name, start, end)
    return tuple(found.values())


_SELECT = "SELECT "


@dataclass(frozen=True)
class Input:
    """One stream of the FROM clause, under its alias, with the conditions on it alone."""

    alias: str
    stream: str
    window: Window
    filters: tuple[Expr, ...] = ()

    @property
    def is_table(self) -> bool:
        return self.window.kind is WindowKind.ALWAYS or self.is_refreshed

    @property
    def is_refreshed(self) -> bool:
        """Whether it is a table in versions: each row is alive until its slot has another one."""
        return SLOT in self.window.by


@dataclass(frozen=True)
class Equality:
    """An equality that connects two streams; each side reads one alias."""

    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        if (
            len(self.left.aliases) != 1
            or len(self.right.aliases) != 1
            or self.left.aliases == self.right.aliases
        ):
            raise ValueError(f"not an equality between two streams: {self.left.sql} = {self.right.sql}")


class OuterKind(StrEnum):
    """What comes out of a join beside, or in place of, the pairs that match.

    LEFT: also what has no partner, with NULLs. FULL: that of both sides. SEMI: only what has a partner, once.
    ANTI: only what has none.
    """

    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Outer:
    """A join with one more stream, after the inner part of a query and the outer joins before it.

    The left side of each equality reads one of the streams before, the right side the new one. `conditions`
    are further comparisons that a partner must pass.
    """

    alias: str
    kind: OuterKind
    equalities: tuple[Equality, ...]
    conditions: tuple[Expr, ...] = ()

    @property
    def brings(self) -> bool:
        """Whether results have columns of the new stream."""
        return self.kind in (OuterKind.LEFT, OuterKind.FULL)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All that it compares."""
        return (*(side for e in self.equalities for side in (e.left, e.right)), *self.conditions)


@dataclass(frozen=True)
class Output:
    """A column of the result; with an `aggregate`, that of the expression over a group of results.

    `is_id` says that it is the result's id.
    """

    name: str
    expr: Expr
    aggregate: str = ""
    is_id: bool = False


AGGREGATES = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True)
class Groups:
    """Which results become one row: those with the same keys and times in the same tumbling window.

    Windows are of `size` microseconds, and begin at 1970-01-01T00:00:00Z.
    """

    size: int
    keys: tuple[Expr, ...] = ()

    @property
    def start(self) -> Expr:
        """Where the window of a result begins, by the result's time."""
        return self._bound("")

    @property
    def end(self) -> Expr:
        """Where it ends: the first moment after it."""
        return self._bound(f" + {self.size}")

    def _bound(self, more: str) -> Expr:
        time = f"unix_micros({quoted(RESULT_TIME)})"
        return Expr(f"timestamp_micros({time} - pmod({time}, {self.size}){more})")


@dataclass(frozen=True)
class Query:
    """A windowed N-way join. `conditions` are the comparisons between streams that do not connect them.

    The inner part comes first; `outer` joins follow, each with one more of the inputs. `equalities` are those
    of the inner part, `conditions` hold for whole results. With `groups`, an output without an aggregate is
    the same for all results of a group.
    """

    name: str
    text: str
    inputs: tuple[Input, ...]
    equalities: tuple[Equality, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    outer: tuple[Outer, ...] = ()
    groups: Groups | None = None
    where: str | None = field(default=None, compare=False)
    """Its file, or another name for it in messages."""

    def __post_init__(self) -> None:
        aliases = self.aliases
        if len(aliases) < 2:
            raise ValueError(f"query {self.name}: a join has two streams or more")
        for what, names in (("aliases", aliases), ("output columns", tuple(o.name for o in self.outputs))):
            if twice := repeated(names):
                raise ValueError(f"query {self.name}: two {what} are called {twice}")
        sides = [side for e in self.equalities for side in (e.left, e.right)]
        joined = [e for one in self.outer for e in one.exprs]
        read = [*sides, *joined, *self.conditions, *self.evaluated]
        if unknown := sorted(frozenset().union(*(e.aliases for e in read)) - set(aliases)):
            raise ValueError(f"query {self.name}: there is no alias {', '.join(unknown)}")
        for i in self.inputs:
            if any(f.aliases - {i.alias} for f in i.filters):
                raise ValueError(f"query {self.name}: a filter of {i.alias} reads another stream")
        if aliases[len(self.inner) :] != tuple(one.alias for one in self.outer) or not self.inner:
            raise ValueError(f"query {self.name}: outer joins come after the inner part")
        if all(i.is_table for i in self.inputs[: len(self.inner)]):
            raise ValueError(f"query {self.name}: a table joins a stream")
        if len(parts := connected(self.inner, self.equalities)) > 1:
            raise ValueError(f"query {self.name}: no equality connects {' and '.join(map(str, parts))}")
        if self.groups is None and any(o.aggregate for o in self.outputs):
            raise ValueError(f"query {self.name}: an aggregate without groups")

    @property
    def evaluated(self) -> tuple[Expr, ...]:
        """The expressions that are evaluated for each result: outputs, and what results are grouped by."""
        keys = () if self.groups is None else self.groups.keys
        return (*keys, *(o.expr for o in self.outputs))

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        return tuple(i.alias for i in self.inputs)

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """The aliases of the inner part."""
        return self.aliases[: len(self.inputs) - len(self.outer)]

    @cached_property
    def inner_part(self) -> Query:
        """The inner part as a query of its own; it has two streams or more.

        Its outputs are the columns that the rest of the query reads.
        """
        if not self.outer:
            return self
        own = set(self.inner)
        later = [e for e in self.conditions if not e.aliases <= own]
        read = [*later, *(e for one in self.outer for e in one.exprs), *self.evaluated]
        columns = dict.fromkeys(c for e in read for c in e.columns if c[0] in own)
        return Query(
            self.name,
            self.text,
            self.inputs[: len(self.inner)],
            self.equalities,
            tuple(e for e in self.conditions if e.aliases <= own),
            tuple(Output(f"c{n}", Expr.column(*c)) for n, c in enumerate(columns)),
            where=self.where,
        )

    @cached_property
    def as_inner(self) -> Query:
        """The query with every join taken for an inner one, to estimate how many tuples match."""
        equalities = (*self.equalities, *(e for one in self.outer for e in one.equalities))
        conditions = (*self.conditions, *(e for one in self.outer for e in one.conditions))
        return replace(self, equalities=equalities, conditions=conditions, outer=())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is dear about it, whatever the plan."""
        every = (*self.equalities, *(e for one in self.outer for e in one.equalities))
        pairs = dict.fromkeys(
            tuple(sorted(e.left.aliases | e.right.aliases, key=self.aliases.index))
            for e in every
            if e.left.is_constant
        )
        return tuple(
            f"no equality connects {left} and {right}: all their pairs are compared, on one core"
            for left, right in pairs
        )

    @property
    def stays(self) -> str:
        """What it has for which its plan can't change while it runs; empty where it can."""
        if self.outer:
            return "an outer join"
        if self.groups is not None:
            return "GROUP BY or DISTINCT"
        return "a table that is refreshed" if any(i.is_refreshed for i in self.inputs) else ""

    @property
    def slide(self) -> int | None:
        """The microseconds of event time after which results are handed out together, if any.

        Those of a group are; otherwise it is the smallest slide of the windows.
        """
        if self.groups is not None:
            return self.groups.size
        return min((i.window.slide for i in self.inputs if i.window.slide), default=None)

    @property
    def id_column(self) -> str | None:
        """The output column with the result's id, if there is one."""
        return next((o.name for o in self.outputs if o.is_id), None)

    def input(self, alias: str) -> Input:
        return self._by_alias[alias]

    @cached_property
    def _by_alias(self) -> dict[str, Input]:
        return {i.alias: i for i in self.inputs}

    def columns_read(self, alias: str) -> tuple[str, ...]:
        """Those, and the columns that outer joins compare beside their keys."""
        compared = [c for one in self.outer for e in one.conditions for c in e.columns]
        return (*self.columns_after_join(alias), *(column for a, column in compared if a == alias))

    def columns_after_join(self, alias: str) -> tuple[str, ...]:
        """The columns of one input that outputs and conditions still read."""
        read = [c for e in (*self.conditions, *self.evaluated) for c in e.columns]
        return tuple(sorted({column for a, column in read if a == alias}))


def repeated(names: Iterable[str]) -> str | None:
    """A name that occurs twice, in any case."""
    for _, same in groupby(sorted(names, key=str.lower), key=str.lower):
        if len(group := list(same)) > 1:
            return group[1]
    return None


def connected(aliases: Iterable[str], equalities: Iterable[Equality]) -> list[tuple[str, ...]]:
    """The parts of a query that equalities connect, each in the order given.

    >>> connected("abc", [Equality(Expr.column("a", "x"), Expr.column("c", "x"))])
    [('a', 'c'), ('b',)]
    """
    part = {alias: [alias] for alias in aliases}
    for equality in equalities:
        (left,), (right,) = equality.left.aliases, equality.right.aliases
        if left in part and right in part and part[left] is not part[right]:
            larger, smaller = sorted((part[left], part[right]), key=len, reverse=True)
            larger.extend(smaller)
            part.update(dict.fromkeys(smaller, larger))
    order = {alias: n for n, alias in enumerate(part)}
    found = {id(p): tuple(sorted(p, key=order.__getitem__)) for p in part.values()}
    return list(found.values())

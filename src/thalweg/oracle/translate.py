"""Spark SQL expressions as DuckDB expressions with the same values.

sqlglot knows how the two differ in syntax; this module handles where they differ in *meaning*.
An expression without a DuckDB equivalent is refused by name: no result is better than a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.schema import MappingSchema

from thalweg.errors import UserError
from thalweg.query.model import RESULT_TIME, Expr

Types = Mapping[str, Mapping[str, str]]
"""The columns of each alias and their Spark types."""

_DATA = exp.DataType
_FLOATS = {_DATA.Type.FLOAT, _DATA.Type.DOUBLE}
_DECIMALS = {_DATA.Type.DECIMAL}
_NUMBERS = _DATA.NUMERIC_TYPES
_INSTANTS = {_DATA.Type.TIMESTAMP, _DATA.Type.TIMESTAMPTZ, _DATA.Type.TIMESTAMPLTZ, _DATA.Type.TIMESTAMPNTZ}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv)
_RESULT = "@result"
_MOST_DIGITS = 38
_INTEGER_DIGITS = {
    _DATA.Type.TINYINT: 3, _DATA.Type.SMALLINT: 5, _DATA.Type.INT: 10, _DATA.Type.BIGINT: 20,
}  # fmt: skip

# Functions sqlglot passes through by name that mean the same in both.
_ALIKE = frozenset(
    {
        *("ascii", "bin", "bit_count", "char_length", "character_length", "contains", "degrees", "endswith"),
        *("levenshtein", "make_date", "pi", "radians", "repeat", "sign", "signum", "startswith", "translate"),
    }
)
# Functions sqlglot translates to something with other values.
_DIFFERENT = (
    *(exp.ArrayDistinct, exp.Cbrt, exp.Decode, exp.Encode, exp.Exists, exp.FromTimeZone, exp.Rand),
    *(exp.Typeof, exp.UtcTimestamp, exp.Uuid),
)

_SECONDS = "(epoch_us(:x) // 1000000 - CASE WHEN epoch_us(:x) % 1000000 < 0 THEN 1 ELSE 0 END)"
_OF_MICROS = "(make_timestamp(CAST(:x AS BIGINT)) AT TIME ZONE 'UTC')"
# Java and DuckDB write the same digits only where neither uses an exponent.
_FLOAT_TEXT = (
    "CASE WHEN isnan(:x) THEN 'NaN' "
    "WHEN isinf(:x) THEN CASE WHEN :x > 0 THEN 'Infinity' ELSE '-Infinity' END "
    "WHEN :x = 0 OR (abs(:x) >= 0.001 AND abs(:x) < 10000000) THEN CAST(:x AS VARCHAR) "
    "ELSE error('a number is too large or too small to be written out as Spark does') END"
)
# Java's text of a double's bits, which DuckDB writes a little shorter.
_HEX_FLOAT = (
    "CASE WHEN isnan(:x) THEN 'NaN' "
    "WHEN isinf(:x) THEN CASE WHEN :x > 0 THEN 'Infinity' ELSE '-Infinity' END "
    r"ELSE regexp_replace(replace(printf('%a', :x), 'p+', 'p'), '^(-?0x[01])p', '\1.0p') END"
)
_NAMED = {
    "pmod": "(((:x % :y) + :y) % :y)",
    "timestamp_micros": _OF_MICROS,
    "timestamp_millis": "(make_timestamp(CAST(:x AS BIGINT) * 1000) AT TIME ZONE 'UTC')",
    "timestamp_seconds": "(make_timestamp(CAST(:x * 1000000 AS BIGINT)) AT TIME ZONE 'UTC')",
    "weekday": "(isodow(:x) - 1)",
    "cardinality": "len(:x)",
    "datepart": "date_part(:x, :y)",
    "date_part": "date_part(:x, :y)",
    "nullifzero": "NULLIF(:x, 0)",
    "zeroifnull": "COALESCE(:x, 0)",
    "btrim": "TRIM(:x)",
    "octet_length": "strlen(:x)",
    "isnull": "(:x IS NULL)",
    "isnotnull": "(:x IS NOT NULL)",
}


def translate(expr: Expr, types: Types, names: Mapping[str, str], result_time: str = "NULL") -> str:
    """An expression for DuckDB, its aliases renamed by `names`, the result's time put in.

    >>> types = {"a": {"x": "double"}, "b": {"s": "string"}}
    >>> translate(Expr("cast(`a`.`x` as int) = `b`.`s`"), types, {"a": "i", "b": "j"})
    'TRY_CAST(TRUNC(i."x") AS INT) = TRY_CAST(j."s" AS BIGINT)'
    """
    try:
        tree = _typed(expr, types)
        for node in reversed(list(tree.walk(bfs=True))):
            if node is not tree and isinstance(node, exp.Expression):
                _rewrite(node)
        for column in list(tree.find_all(exp.Column)):
            if column.table == _RESULT:
                column.replace(parse_one(result_time, dialect="duckdb"))
            else:
                column.set("table", exp.to_identifier(names[column.table]))
                column.this.set("quoted", True)
        (value,) = tree.expressions
        return str(value.sql("duckdb", unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise _refusal(expr) from error
    except _RefusedError as error:
        raise _refusal(expr, str(error)) from error


class _RefusedError(Exception):
    pass


def _refusal(expr: Expr, why: str = "") -> UserError:
    detail = f" ({why})" if why else ""
    return UserError(
        f"DuckDB can't evaluate {expr.sql} as Spark does{detail}", remedy="verify a query without it"
    )


def _typed(expr: Expr, types: Types) -> exp.Select:
    """The expression as the only column of a SELECT, every node with its type."""
    select = exp.select(parse_one(expr.sql, dialect="spark"))
    for column in list(select.find_all(exp.Column)):
        if column.args.get("db"):  # alias.column.field
            base = exp.column(column.args["table"].copy(), column.args["db"].copy(), quoted=True)
            column.replace(exp.Dot(this=exp.Paren(this=base), expression=column.this.copy()))
        elif not column.table and column.name == RESULT_TIME:
            column.set("table", exp.to_identifier(_RESULT, quoted=True))
        elif column.table not in types:
            raise _RefusedError(f"no stream {column.table!r}")
    for table in sorted({column.table for column in select.find_all(exp.Column)}):
        select = select.join(exp.Table(this=exp.to_identifier(table, quoted=True)), join_type="cross")
    select = select.from_(exp.values([(1,)], alias="@one", columns=["one"]))
    known = MappingSchema({**types, _RESULT: {RESULT_TIME: "timestamp"}}, dialect="spark", normalize=False)
    annotated = annotate_types(select, schema=known, dialect="spark")
    assert isinstance(annotated, exp.Select)
    return annotated


def _rewrite(node: exp.Expression) -> None:
    """Replaces one node whose children are done already."""
    if isinstance(node, _DIFFERENT):
        raise _RefusedError(f"there is no {node.key}() with the same meaning")
    if isinstance(node, exp.Anonymous):
        _named_function(node)
    elif isinstance(node, exp.Cast):  # also TRY_CAST
        _cast(node)
    elif isinstance(node, _COMPARISONS):
        _compare(node, "this", "expression")
    elif isinstance(node, exp.Between):
        _compare(node, "this", "low")
        _compare(node, "this", "high")
    elif isinstance(node, exp.In):
        _in(node)
    elif isinstance(node, exp.Div):
        _division(node)
    elif isinstance(node, _ARITHMETIC):
        _arithmetic(node)
    elif isinstance(node, (exp.Concat, exp.DPipe)):
        for part in node.expressions or [node.this, node.expression]:
            _as_text(part)
    else:
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(node)


def _is(node: exp.Expression | None, types: Set[Any]) -> bool:
    return node is not None and node.type is not None and node.type.this in types


def _put(node: exp.Expression, template: str, **parts: exp.Expression) -> None:
    """Puts a DuckDB expression in a node's place; `:x` stands for a part."""
    new = parse_one(template, dialect="duckdb")
    for place in list(new.find_all(exp.Placeholder)):
        place.replace(parts[place.name].copy())
    new.type = node.type
    node.replace(new)


def _try_cast(node: exp.Expression, to: str) -> None:
    new = exp.TryCast(this=node.copy(), to=exp.DataType.build(to, dialect="duckdb"))
    new.type = exp.DataType.build(to, dialect="duckdb")
    node.replace(new)


def _named_function(node: exp.Anonymous) -> None:
    name = str(node.this).lower()
    if name in _NAMED:
        parts = dict(zip(("x", "y"), node.expressions, strict=False))
        _put(node, _NAMED[name], **parts)
    elif name not in _ALIKE:
        raise _RefusedError(f"there is no {name}() with the same meaning")


def _cast(node: exp.Cast) -> None:
    """Spark truncates to integers, counts an instant in seconds, and writes an instant without its zone."""
    value, to = node.this, node.to
    if to.this in _DATA.INTEGER_TYPES:
        if _is(value, _FLOATS | _DECIMALS):
            _put(value, "TRUNC(:x)", x=value)
        elif _is(value, _INSTANTS):
            _put(value, _SECONDS, x=value)
    elif to.this in _FLOATS and _is(value, _INSTANTS):
        _put(value, "(epoch_us(:x) / 1000000)", x=value)
    elif to.this in _DATA.TEXT_TYPES:
        _as_text(value)
    elif to.this in _INSTANTS and _is(value, _NUMBERS):
        _put(node, "(make_timestamp(CAST(FLOOR(:x * 1000000) AS BIGINT)) AT TIME ZONE 'UTC')", x=value)


def _as_text(node: exp.Expression) -> None:
    if _is(node, _FLOATS) and not isinstance(node, exp.Literal):
        _put(node, _FLOAT_TEXT, x=node)
    elif _is(node, _INSTANTS):
        _put(node, "CAST(:x AS TIMESTAMP)", x=node)
    elif _is(node, {_DATA.Type.BINARY, _DATA.Type.VARBINARY}):
        _put(node, "DECODE(:x)", x=node)
    elif _is(node, {*_DATA.NESTED_TYPES, _DATA.Type.INTERVAL}) or (
        node.type is not None and isinstance(node.type.this, exp.Interval)
    ):
        raise _RefusedError("its text is written differently")


def _compare(node: exp.Expression, left: str, right: str) -> None:
    """A string beside a number, a date or an instant becomes one; a float beside another number a double."""
    for one, other in ((left, right), (right, left)):
        text, value = node.args[one], node.args[other]
        if not _is(text, _DATA.TEXT_TYPES):
            continue
        if _is(value, _DATA.INTEGER_TYPES):
            _try_cast(text, "BIGINT")
        elif _is(value, _NUMBERS):
            _try_cast(text, "DOUBLE")
        elif _is(value, {_DATA.Type.TIMESTAMPNTZ, _DATA.Type.TIMESTAMP}):
            _try_cast(text, "TIMESTAMP")
        elif _is(value, _INSTANTS):
            _try_cast(text, "TIMESTAMPTZ")
        elif _is(value, {_DATA.Type.DATE}):
            _try_cast(text, "DATE")
        elif _is(value, {_DATA.Type.BOOLEAN}):
            _try_cast(text, "BOOLEAN")
    _widen_float(node.args[left], node.args[right])
    _meet_decimals(node.args[left], node.args[right])


def _meet_decimals(left: exp.Expression, right: exp.Expression) -> None:
    """Where no decimal holds the digits of both sides, Spark gives up digits after the point, by rounding.

    DuckDB would give up those before it, and fail.
    """
    sides = [digits for side in (left, right) if (digits := _digits(side)) is not None]
    if len(sides) < 2:
        return
    before = max(precision - scale for precision, scale in sides)
    after = max(scale for _, scale in sides)
    if before + after > _MOST_DIGITS:
        for side in (left, right):
            _put(side, f"CAST(:x AS DECIMAL({_MOST_DIGITS}, {_MOST_DIGITS - before}))", x=side)


def _digits(node: exp.Expression) -> tuple[int, int] | None:
    """Precision and scale of a decimal, or of an integer as a decimal; None where they are not known."""
    if node.type is None or isinstance(node, exp.Literal):
        return None
    if node.type.this in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[node.type.this], 0
    if not _is(node, _DECIMALS):
        return None
    given = [int(p.name) for p in node.type.expressions]
    return (given[0], given[1] if len(given) > 1 else 0) if given else None


def _widen_float(left: exp.Expression, right: exp.Expression) -> None:
    float_ = {_DATA.Type.FLOAT}
    if _is(left, _NUMBERS) and _is(right, _NUMBERS) and _is(left, float_) != _is(right, float_):
        _try_cast(left, "DOUBLE")
        _try_cast(right, "DOUBLE")


def _in(node: exp.In) -> None:
    kinds = {_is(e, _DATA.TEXT_TYPES) for e in (node.this, *node.expressions)}
    if len(kinds) > 1:
        either = [exp.EQ(this=node.this.copy(), expression=e.copy()) for e in node.expressions]
        for test, e in zip(either, node.expressions, strict=True):
            test.this.type, test.expression.type = node.this.type, e.type
            _compare(test, "this", "expression")
        node.replace(exp.Paren(this=exp.or_(*either)))


def _division(node: exp.Div) -> None:
    """Everything but decimals is divided as doubles."""
    for side in (node.this, node.expression):
        if not _is(side, _DECIMALS) and not isinstance(side, exp.Literal):
            _try_cast(side, "DOUBLE")


def _arithmetic(node: exp.Binary) -> None:
    """An integer literal is an INT in Spark and as small as its value in DuckDB."""
    for side in (node.this, node.expression):
        if isinstance(side, exp.Literal) and side.is_int:
            to = "INT" if abs(int(side.this)) < 2**31 else "BIGINT"
            if abs(int(side.this)) < 2**63:
                new = exp.cast(side.copy(), to)
                new.type = exp.DataType.build(to)
                side.replace(new)
    _widen_float(node.this, node.expression)


def _substring(node: exp.Substring) -> None:
    start = node.args.get("start")
    if start is not None:
        _put(start, "CASE WHEN :x = 0 THEN 1 ELSE :x END", x=start)


def _to_unix(node: exp.StrToUnix) -> None:
    if _is(node.this, _INSTANTS | {_DATA.Type.DATE}):
        _put(node, _SECONDS, x=node.this)


def _whole_unit(node: exp.Expression) -> None:
    """Spark has short names for units that DuckDB does not know."""
    unit = node.args.get("unit")
    long = {"MM": "MONTH", "MON": "MONTH", "YY": "YEAR", "YYYY": "YEAR", "DD": "DAY"}
    if unit is not None and unit.name.upper() in long:
        unit.replace(exp.Literal.string(long[unit.name.upper()]))


def _trunc(node: exp.DateTrunc) -> None:
    _whole_unit(node)
    _put(node, "CAST(:x AS DATE)", x=node)


def _format(node: exp.Format) -> None:
    """Only the form of a number's bits is the same in both; it is what `result_id` asks for."""
    if node.this.name != "%a" or len(node.expressions) != 1 or not _is(node.expressions[0], _FLOATS):
        raise _RefusedError("there is no format_string() with the same meaning")
    _put(node, _HEX_FLOAT, x=node.expressions[0])


def _json(node: exp.JSONFormat) -> None:
    if node.args.get("options") is not None:
        raise _RefusedError("there is no to_json() with the same options")


def _of_text(node: exp.Expression) -> None:
    if not _is(node.this, _DATA.TEXT_TYPES):
        raise _RefusedError(f"{node.key}() is known for strings only")


def _domain(test: str, otherwise: str) -> Callable[[exp.Expression], None]:
    """Where DuckDB stops with an error and Spark gives a value."""

    def rule(node: exp.Expression) -> None:
        value = node.this.copy()
        _put(node, f"CASE WHEN {test} THEN {otherwise} ELSE :f END", x=value, f=node)

    return rule


def _round(node: exp.Round) -> None:
    """Spark rounds the decimal digits that a double is written with, DuckDB the double."""
    if _is(node.this, _FLOATS) and node.args.get("decimals") is not None:
        exact = "CAST(ROUND(CAST(CAST(:x AS VARCHAR) AS DECIMAL(38, 18)), :n) AS DOUBLE)"
        _put(node, f"CASE WHEN abs(:x) < 1e15 THEN {exact} ELSE :x END", x=node.this, n=node.args["decimals"])


def _like(node: exp.Like) -> None:
    if not isinstance(node.parent, exp.Escape):
        escaped = exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
        escaped.type = node.type
        node.replace(escaped)


_RULES: Mapping[type[exp.Expression], Callable[..., None]] = {
    exp.Extract: lambda node: _put(node.expression, "CAST(:x AS TIMESTAMP)", x=node.expression),
    exp.DayOfWeek: lambda node: _put(node, "(dayofweek(:x) + 1)", x=node.this),
    exp.Format: _format,
    exp.JSONFormat: _json,
    exp.IsNan: lambda node: _put(node, "COALESCE(isnan(:x), FALSE)", x=node.this),
    exp.Ln: _domain(":x <= 0", "NULL"),
    exp.Round: _round,
    exp.Sqrt: _domain(":x < 0", "CAST('NaN' AS DOUBLE)"),
    exp.Like: _like,
    exp.StrToUnix: _to_unix,
    exp.Substring: _substring,
    exp.TimestampTrunc: _whole_unit,
    exp.DateTrunc: _trunc,
    exp.UnixSeconds: lambda node: _put(node, _SECONDS, x=node.this),
    exp.DateFromUnixDate: lambda node: _put(node, "CAST(:x AS DATE)", x=node),
    exp.MonthsBetween: lambda node: _put(node, "ROUND(:x, 8)", x=node),
    exp.Dayname: lambda node: _put(node, "LEFT(dayname(:x), 3)", x=node.this),
    exp.Monthname: lambda node: _put(node, "LEFT(monthname(:x), 3)", x=node.this),
    exp.Reverse: _of_text,
    exp.TsOrDsAdd: lambda node: _put(node, "CAST(:x AS DATE)", x=node),
}

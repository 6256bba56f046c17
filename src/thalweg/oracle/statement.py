"""A query as one SQL statement over static tables.

The rule is its last line: `greatest(start...) <= least(end...)`. The rest makes it fast.
Time is cut into slices about as long as the windows, and a tuple is put into each slice that its life
touches. A result then lies wholly in the slice of its own time, so slices join by equality like the keys,
and a popular key costs its window, not its history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from thalweg.catalog.model import Catalog, Stream
from thalweg.oracle.inputs import quoted
from thalweg.oracle.translate import Types, translate
from thalweg.query.model import Equality, Expr, Input, Outer, OuterKind, Query, WindowKind
from thalweg.units import BEFORE_ALL

_FOREVER = 2**63 - 1
_AGGREGATES = {"": "{}", "avg": "CAST(sum({0}) AS DOUBLE) / count({0})"}


def relation_names(query: Query) -> dict[str, str]:
    """The DuckDB relation of each stream: its own name, unless another differs from it only in case.

    DuckDB's names ignore case.
    """
    names: dict[str, str] = {}
    for stream in dict.fromkeys(i.stream for i in query.inputs):
        taken = {n.lower() for n in names.values()}
        names[stream] = stream if stream.lower() not in taken else f"{stream}@{len(names)}"
    return names


def types_of(query: Query, catalog: Catalog) -> Types:
    """The columns of each alias."""
    return {i.alias: catalog.streams[i.stream].types for i in query.inputs}


def expected_sql(query: Query, catalog: Catalog) -> str:
    """The statement that gives the query's results, its columns named `c0`, `c1`, ... in order."""
    types = types_of(query, catalog)
    inputs = {i.alias: f"i{n}" for n, i in enumerate(query.inputs)}
    relations = relation_names(query)
    again = "" if _constant_width(query) else "MATERIALIZED "
    parts = [
        f"a{n} AS {again}({_alive(i, catalog.streams[i.stream], relations[i.stream], types)})"
        for n, i in enumerate(query.inputs)
    ]
    parts.append(f"slices AS MATERIALIZED ({_slices(query)})")
    for n, one in enumerate(query.inputs[: len(query.inner)]):
        parts.append(f"i{n} AS ({f'FROM a{n}' if one.is_table else _sliced(n)})")
    if query.outer:
        return _outer(query, catalog, types, parts)

    starts = ", ".join(f'{i}."@start"' for i in inputs.values())
    conditions = _together(query, types, inputs)
    time = _result_time(query, catalog, f"greatest({starts})")
    conditions += [f"({translate(e, types, inputs, time)})" for e in query.conditions]
    columns, groups = columns_of(query, types, inputs, time)
    return (
        "WITH " + ",\n".join(parts) + "\nSELECT " + ", ".join(columns)
        + "\nFROM " + ", ".join(inputs.values()) + "\nWHERE " + "\n  AND ".join(conditions) + groups
    )  # fmt: skip


def columns_of(query: Query, types: Types, names: Mapping[str, str], time: str) -> tuple[list[str], str]:
    """The output columns, and what follows WHERE where results are grouped."""
    found = []
    for n, o in enumerate(query.outputs):
        value = translate(o.expr, types, names, time)
        found.append(f"{_AGGREGATES.get(o.aggregate, f'{o.aggregate}({{}})').format(value)} AS c{n}")
    if query.groups is None:
        return found, ""
    plain = [o.expr for o in query.outputs if not o.aggregate]
    keys = dict.fromkeys((query.groups.start, *query.groups.keys, *plain))
    by = [translate(key, types, names, time) for key in keys if key.columns]
    return found, f"\nGROUP BY {', '.join(f'({key})' for key in by)}"


def _together(query: Query, types: Types, inputs: dict[str, str]) -> list[str]:
    """What makes tuples of the inner part a result: equal keys, and a moment at which all are alive."""
    starts = ", ".join(f'{i}."@start"' for i in inputs.values())
    ends = ", ".join(f'{i}."@end"' for i in inputs.values())
    conditions = [_equality(e, types, inputs) for e in query.equalities]
    timed = [inputs[i.alias] for i in query.inputs if i.alias in inputs and not i.is_table]
    for one, other in combinations(timed, 2):
        # Intervals meet if every two of them do; said pair by pair, it prunes before the last join.
        conditions.append(f'{one}."@slice" = {other}."@slice"')
        conditions.append(f'{one}."@start" <= {other}."@end" AND {other}."@start" <= {one}."@end"')
    conditions.append(f'{timed[0]}."@slice" = greatest({starts}) // (SELECT width FROM slices)')
    conditions.append(f"greatest({starts}) <= least({ends})")
    return conditions


def _outer(query: Query, catalog: Catalog, types: Types, parts: list[str]) -> str:
    """The same with outer joins: each adds one stream to the combinations before it (l0, l1, ...).

    A combination has its number, its members as structs r0, r1, ..., and the interval on which it is alive.
    """
    inner = {a: f"i{n}" for n, a in enumerate(query.inner)}
    starts, ends = (", ".join(f'{i}."{name}"' for i in inner.values()) for name in ("@start", "@end"))
    members = ", ".join(f"{i} AS r{n}" for n, i in enumerate(inner.values()))
    parts.append(
        f'l0 AS MATERIALIZED (SELECT row_number() OVER () AS "@n", {members}, greatest({starts}) AS "@s", '
        f'least({ends}) AS "@e" FROM {", ".join(inner.values())} '
        f"WHERE {' AND '.join(_together(query, types, inner))})"
    )
    rows = {a: f"r{n}" for n, a in enumerate(query.aliases)}
    had = [rows[a] for a in query.inner]
    for n, one in enumerate(query.outer):
        new = rows[one.alias]
        parts += _outer_step(n, new, had, one, types, rows)
        had += [new] if one.brings else []
    time = _result_time(query, catalog, '"@s"')
    conditions = [f"({translate(e, types, rows, time)})" for e in query.conditions] or ["TRUE"]
    columns, groups = columns_of(query, types, rows, time)
    return (
        "WITH " + ",\n".join(parts) + "\nSELECT " + ", ".join(columns)
        + f"\nFROM l{len(query.outer)}\nWHERE " + "\n  AND ".join(conditions) + groups
    )  # fmt: skip


def _outer_step(
    n: int, new: str, had: Sequence[str], one: Outer, types: Types, rows: dict[str, str]
) -> list[str]:
    """The combinations after an outer join: the pairs that match, and those of a side without a partner."""
    before, right, pairs = f"l{n}", f"w{n}", f"m{n}"
    conditions = [_equality(e, types, rows) for e in one.equalities]
    conditions += [f"({translate(e, types, rows)})" for e in one.conditions]
    conditions.append('greatest("@s", "@start") <= least("@e", "@end")')
    own = ", ".join(had)
    found = [
        f'{right} AS MATERIALIZED (SELECT row_number() OVER () AS "@m", t AS {new}, "@start", "@end" '
        f"FROM a{new[1:]} t)",
        f'{pairs} AS MATERIALIZED (SELECT "@n", "@m", {own}, {new}, greatest("@s", "@start") AS "@s", '
        f'least("@e", "@end") AS "@e" FROM {before}, {right} WHERE {" AND ".join(conditions)})',
    ]
    met = f'"@n" IN (SELECT "@n" FROM {pairs})'
    if one.kind is OuterKind.SEMI:
        after = f'SELECT {own}, "@s", "@e" FROM {before} WHERE {met}'
    elif one.kind is OuterKind.ANTI:
        after = f'SELECT {own}, "@s", "@e" FROM {before} WHERE NOT {met}'
    else:
        after = f'SELECT {own}, {new}, "@s", "@e" FROM {pairs} UNION ALL SELECT {own}, NULL, "@s", "@e" '
        after += f"FROM {before} WHERE NOT {met}"
    if one.kind is OuterKind.FULL:
        nulls = ", ".join("NULL" for _ in had)
        after += f' UNION ALL SELECT {nulls}, {new}, "@start", "@end" FROM {right} '
        after += f'WHERE "@m" NOT IN (SELECT "@m" FROM {pairs})'
    found.append(f'l{n + 1} AS MATERIALIZED (SELECT row_number() OVER () AS "@n", * FROM ({after}))')
    return found


def duplicates_sql(stream: Stream, relation: str, by: Sequence[str]) -> str:
    """Times and orders that several tuples share, which a window of rows can't count."""
    place = ", ".join(quoted(c) for c in dict.fromkeys((stream.time, *stream.order, *by)))
    return (
        f"SELECT {place}, count(*) FROM {quoted(relation)} WHERE {quoted(stream.time)} IS NOT NULL "
        f"GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 3"
    )


def _alive(one: Input, stream: Stream, relation: str, types: Types) -> str:
    """The tuples of one input that pass its filters, each with the first and last moment of its life."""
    if one.is_table and not one.is_refreshed:
        whole = f'SELECT *, {BEFORE_ALL} AS "@start", {_FOREVER} AS "@end" FROM {quoted(relation)}'
        filters = ["true", *(translate(e, types, {one.alias: "t"}) for e in one.filters)]
        return f"SELECT * FROM ({whole}) t WHERE {' AND '.join(f'({f})' for f in filters)}"
    start = f"epoch_us({quoted(stream.time)})"
    if one.window.kind is WindowKind.RANGE and one.window.size < _FOREVER:
        size = one.window.size
        end = f"CASE WHEN {start} > {_FOREVER - size} THEN {_FOREVER} ELSE {start} + {size} END"
    elif one.window.kind is WindowKind.ROWS:
        place = ", ".join([start, *(f"{quoted(c)} NULLS FIRST" for c in stream.order)])
        # Half-open; time is in whole microseconds, so the last moment before t is t - 1.
        by = f"PARTITION BY {', '.join(map(quoted, one.window.by))} " if one.window.by else ""
        end = f"coalesce(lead({start}, {one.window.size}) OVER ({by}ORDER BY {place}) - 1, {_FOREVER})"
    elif one.window.kind is WindowKind.TUMBLE:
        size = one.window.size
        end = f"{start} - (({start} % {size}) + {size}) % {size} + {size - 1}"
    else:
        end = str(_FOREVER)
    whole = (
        f'SELECT *, {start} AS "@start", {end} AS "@end" FROM {quoted(relation)} '
        f"WHERE {quoted(stream.time)} IS NOT NULL"
    )
    filters = ['"@start" <= "@end"', *(translate(e, types, {one.alias: "t"}) for e in one.filters)]
    return f"SELECT * FROM ({whole}) t WHERE {' AND '.join(f'({f})' for f in filters)}"


def _constant_width(query: Query) -> bool:
    return all(i.window.kind is WindowKind.RANGE for i in query.inputs if not i.is_table)


def _slices(query: Query) -> str:
    """One row: the end of all input, and how wide slices are.

    As wide as the longest of the inputs' mean lives, so that no input more than doubles by being sliced.
    """
    if _constant_width(query):
        width = max(1, *(min(i.window.size, _FOREVER) for i in query.inputs if not i.is_table))
        return f"SELECT {_FOREVER} AS last, {width} AS width"
    timed = [n for n, i in enumerate(query.inputs) if not i.is_table]
    last = ", ".join(f'(SELECT max("@start") FROM a{n})' for n in timed)
    lives = [f'SELECT avg(least("@end", last) - "@start") AS life FROM a{n}' for n in timed]
    return (
        "SELECT last, greatest(1, (SELECT CAST(ceil(max(life)) AS BIGINT) "
        f"FROM ({' UNION ALL '.join(lives)}))) AS width FROM (SELECT greatest({last}) AS last)"
    )


def _sliced(n: int) -> str:
    return (
        'SELECT a.*, unnest(range("@start" // width, least("@end", last) // width + 1)) AS "@slice" '
        f"FROM a{n} a, slices"
    )


def _equality(equality: Equality, types: Types, inputs: dict[str, str]) -> str:
    both = Expr(f"({equality.left.sql}) = ({equality.right.sql})")  # as one, for the types to meet
    return translate(both, types, inputs)


def _result_time(query: Query, catalog: Catalog, start: str) -> str:
    moment = f"make_timestamp({start})"
    streams = [catalog.streams[i.stream] for i in query.inputs if not i.is_table]
    without_zone = all(s.columns[s.time].lower().startswith("timestamp_ntz") for s in streams)
    return moment if without_zone else f"({moment} AT TIME ZONE 'UTC')"

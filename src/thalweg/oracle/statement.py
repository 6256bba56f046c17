"""A query as one SQL statement over static tables.

The rule is its last line: `greatest(start...) <= least(end...)`. The rest makes it fast.
Time is cut into slices about as long as the windows, and a tuple is put into each slice that its life
touches. A result then lies wholly in the slice of its own time, so slices join by equality like the keys,
and a popular key costs its window, not its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from thalweg.catalog.model import Catalog, Stream
from thalweg.oracle.inputs import quoted
from thalweg.oracle.translate import Types, translate
from thalweg.query.model import Equality, Expr, Input, Query, WindowKind

_FOREVER = 2**63 - 1


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
    return {i.alias: catalog.streams[i.stream].columns for i in query.inputs}


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
    parts += [f"i{n} AS ({_sliced(n)})" for n in range(len(query.inputs))]

    starts = ", ".join(f'{i}."@start"' for i in inputs.values())
    ends = ", ".join(f'{i}."@end"' for i in inputs.values())
    conditions = [_equality(e, types, inputs) for e in query.equalities]
    for one, other in combinations(inputs.values(), 2):
        # Intervals meet if every two of them do; said pair by pair, it prunes before the last join.
        conditions.append(f'{one}."@slice" = {other}."@slice"')
        conditions.append(f'{one}."@start" <= {other}."@end" AND {other}."@start" <= {one}."@end"')
    conditions.append(f'i0."@slice" = greatest({starts}) // (SELECT width FROM slices)')
    conditions.append(f"greatest({starts}) <= least({ends})")
    time = _result_time(query, catalog, starts)
    conditions += [f"({translate(e, types, inputs, time)})" for e in query.conditions]
    columns = [f"{translate(o.expr, types, inputs, time)} AS c{n}" for n, o in enumerate(query.outputs)]
    return (
        "WITH " + ",\n".join(parts) + "\nSELECT " + ", ".join(columns)
        + "\nFROM " + ", ".join(inputs.values()) + "\nWHERE " + "\n  AND ".join(conditions)
    )  # fmt: skip


def duplicates_sql(stream: Stream, relation: str, by: Sequence[str]) -> str:
    """Times and orders that several tuples share, which a window of rows can't count."""
    place = ", ".join(quoted(c) for c in dict.fromkeys((stream.time, *stream.order, *by)))
    return (
        f"SELECT {place}, count(*) FROM {quoted(relation)} WHERE {quoted(stream.time)} IS NOT NULL "
        f"GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 3"
    )


def _alive(one: Input, stream: Stream, relation: str, types: Types) -> str:
    """The tuples of one input that pass its filters, each with the first and last moment of its life."""
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
    return all(i.window.kind is WindowKind.RANGE for i in query.inputs)


def _slices(query: Query) -> str:
    """One row: the end of all input, and how wide slices are.

    As wide as the longest of the inputs' mean lives, so that no input more than doubles by being sliced.
    """
    if _constant_width(query):
        width = max(1, *(min(i.window.size, _FOREVER) for i in query.inputs))
        return f"SELECT {_FOREVER} AS last, {width} AS width"
    last = ", ".join(f'(SELECT max("@start") FROM a{n})' for n in range(len(query.inputs)))
    lives = [
        f'SELECT avg(least("@end", last) - "@start") AS life FROM a{n}' for n in range(len(query.inputs))
    ]
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


def _result_time(query: Query, catalog: Catalog, starts: str) -> str:
    moment = f"make_timestamp(greatest({starts}))"
    streams = [catalog.streams[i.stream] for i in query.inputs]
    without_zone = all(s.columns[s.time].lower().startswith("timestamp_ntz") for s in streams)
    return moment if without_zone else f"({moment} AT TIME ZONE 'UTC')"

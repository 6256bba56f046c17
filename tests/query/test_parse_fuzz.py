"""Whatever a query holds, it is a query or an error that the user can read; and right ones survive."""

# ruff: noqa: E501, SIM905 - words and cases, many a line

from __future__ import annotations

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from thalweg.errors import UserError
from thalweg.query import Expr, Query, classes, parse

from .test_parse import KEPT, SAME, SCHEMAS, TAIL

VALID = [
    "SELECT f.num, w.forecast, c.status AS checkin FROM flights [RANGE 5 MINUTES] AS f, weather w [ROWS 5], "
    "checkins [RANGE 1 MINUTE SLIDE 10 SECONDS] c WHERE f.dest = w.city AND f.num = c.flight AND "
    "( f.terminal = 'B' OR w.temp < f.max_temp ) AND f.num BETWEEN 1 AND 2",
    *(f"SELECT f.num, f.info.city AS x {text}" for text in SAME),
    *(f"SELECT {item.replace('{', '').replace('}', '')} AS x{TAIL}" for item in KEPT),
]
WORDS = (
    "SELECT FROM WHERE AND OR NOT JOIN LEFT ON USING AS [ ] ( ) , . * = <=> -> :: : ; ' \" ` -- /* */ ? @ $ { } CASE "
    "WHEN THEN END BETWEEN IN IS NULL LIKE INTERVAL DATE CAST f w f.num f.info.city w.city c.* count( now() x 1 1L .5 "
    "'s' RANGE ROWS 5 SECONDS SLIDE UNBOUNDED GROUP BY LIMIT UNION WITH OVER LATERAL EXISTS DISTINCT struct< > || ! ~"
).split()


def holds(text: str) -> Query | None:
    try:
        query = parse(text, name="q", schemas=SCHEMAS, where="q.sql")
    except UserError as error:
        assert "\x1b" not in str(error)
        assert str(error).startswith("q.sql, line ")
        return None
    for expr in expressions(query):
        assert all(
            alias in query.aliases or (alias, column) == ("", "result_time") for alias, column in expr.columns
        )
        assert (
            expr.rename(lambda alias, column: Expr.column(alias, column).sql if alias else f"`{column}`")
            == expr.sql
        )
    classes(query.equalities)
    return query


def expressions(query: Query) -> list[Expr]:
    sides = [side for e in query.equalities for side in (e.left, e.right)]
    filters = [f for i in query.inputs for f in i.filters]
    return [*sides, *filters, *query.conditions, *(o.expr for o in query.outputs)]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    words = draw(st.sampled_from(VALID)).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        i, j = (draw(st.integers(0, len(words) - 1)) for _ in range(2))
        match draw(st.sampled_from(["drop", "swap", "twice", "insert", "cut"])):
            case "drop" if len(words) > 1:
                del words[i]
            case "swap":
                words[i], words[j] = words[j], words[i]
            case "twice":
                words.insert(j, words[i])
            case "insert":
                words.insert(i, draw(st.sampled_from(WORDS)))
            case "cut":
                words[i] = words[i][: draw(st.integers(0, len(words[i])))]
    return draw(st.sampled_from([" ", "\n"])).join(words)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(mutated())
def test_queries_with_something_changed(text: str) -> None:
    holds(text)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)))
def test_text_that_is_anything(text: str) -> None:
    holds(text)
    holds(f"SELECT {text} AS x{TAIL}")
    holds(f"SELECT f.num{TAIL} AND {text}")


NUMBERS = st.sampled_from(
    ["f.num", "w.temp", "NUM", "`f`.`max_temp`", "f.info.loc.lat", "xs[0]", "1", "2.5BD", "3L", ".5"]
)
TEXTS = st.sampled_from(["f.dest", "w.city", "info.city", "'it''s'", '"q"', "'a\\nb'", "upper(forecast)"])
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+ - * / % & |".split()), inner).map(" ".join),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"abs({e})"),
        inner.map(lambda e: f"CAST({e} AS INT)"),
        st.tuples(inner, inner).map(lambda p: f"CASE WHEN {p[0]} > 1 AND {p[1]} = 2 THEN {p[0]} END"),
        inner.map(lambda e: f"aggregate(transform(f.xs, x -> x + {e}), 0, (a, b) -> a + b)"),
    ),
    max_leaves=5,
)
PREDICATES = st.one_of(
    st.tuples(VALUES, st.sampled_from("= == < <= > >= <> != <=>".split()), VALUES).map(" ".join),
    st.tuples(TEXTS, st.sampled_from(["=", "LIKE", "NOT LIKE", "RLIKE"]), TEXTS).map(" ".join),
    st.tuples(VALUES, VALUES, VALUES).map(lambda v: f"{v[0]} BETWEEN {v[1]} AND {v[2]}"),
    st.tuples(VALUES, VALUES).map(lambda v: f"{v[0]} NOT IN ({v[1]}, 2)"),
    TEXTS.map(lambda t: f"{t} IS NOT NULL"),
)
CONDITIONS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} AND {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} OR {p[1]})"),
        inner.map(lambda p: f"NOT {p}"),
        st.tuples(inner, inner).map(" AND ".join),
    ),
    max_leaves=5,
)


def conjuncts(condition: str) -> list[exp.Expression]:
    """The same split, by sqlglot's own tree."""
    pending = [sqlglot.parse_one(f"SELECT {condition}", dialect="spark").expressions[0]]
    found = []
    while pending:
        node = pending.pop().unnest()
        if isinstance(node, exp.And):
            pending += [node.right, node.left]
        else:
            found.append(node)
    return found


@settings(max_examples=120, deadline=None, derandomize=True)
@given(CONDITIONS, VALUES)
def test_right_queries_are_read_and_split_as_sqlglot_splits_them(condition: str, value: str) -> None:
    text = f"SELECT {value} AS x FROM flights f [ROWS 1] JOIN weather w [ROWS 1] ON f.dest = w.city WHERE {condition}"
    query = holds(text)
    assert query is not None
    parts = 1 + len(conjuncts(condition))
    found = len(query.conditions) + len(query.equalities) + sum(len(i.filters) for i in query.inputs)
    seen = {e.sql for e in (*query.conditions, *(f for i in query.inputs for f in i.filters))}
    seen |= {f"{e.left.sql} = {e.right.sql}" for e in query.equalities}
    assert len(seen) <= found <= parts  # two that are the same are kept once
    again = parse(
        f"SELECT {query.outputs[0].expr.sql} AS x FROM flights f [ROWS 1], weather w [ROWS 1] WHERE "
        + " AND ".join([*(f"{e.left.sql} = {e.right.sql}" for e in query.equalities),
                        *(f.sql for i in query.inputs for f in i.filters), *(c.sql for c in query.conditions)]),
        name="q",
        schemas=SCHEMAS,
    )  # fmt: skip
    assert (again.equalities, again.conditions, again.outputs) == (
        query.equalities,
        query.conditions,
        query.outputs,
    )
    assert {i.alias: set(i.filters) for i in again.inputs} == {i.alias: set(i.filters) for i in query.inputs}

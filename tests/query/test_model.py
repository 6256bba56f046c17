"""The model of a query, made by code, and the classes of its equalities."""

from __future__ import annotations

import pytest

from thalweg.query import Equality, Expr, Input, Output, Query, Window, WindowKind, classes, connected, parse

WINDOW = Window(WindowKind.RANGE, 5)


def equal(left: str, right: str) -> Equality:
    (a, x), (b, y) = left.split("."), right.split(".")
    return Equality(Expr.column(a, x), Expr.column(b, y))


def query(
    *equalities: Equality, aliases: str = "ab", outputs: tuple[Output, ...] = (), **more: object
) -> Query:
    inputs = tuple(Input(alias, "s", WINDOW) for alias in aliases)
    return Query("q", "", inputs, equalities, more.get("conditions", ()), outputs)  # type: ignore[arg-type]


def shown(*equalities: Equality) -> list[dict[str, list[str]]]:
    return [{a: [e.sql for e in es] for a, es in c.items()} for c in classes(equalities)]


def test_a_query_can_be_made_without_sql() -> None:
    made = query(equal("a.x", "b.x"), outputs=(Output("a_x", Expr.column("a", "x")),))
    assert made.aliases == ("a", "b")
    assert made.slide is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: query(aliases="a"), "two streams or more"),
        (lambda: query(equal("a.x", "b.x"), aliases="aAb"), "two aliases are called"),
        (lambda: query(equal("a.x", "c.x")), "no alias c"),
        (lambda: query(equal("a.x", "b.x"), aliases="abc"), "no equality connects"),
        (lambda: query(equal("a.x", "b.x"), conditions=(Expr("`z`.`x` = 1"),)), "no alias z"),
        (
            lambda: query(equal("a.x", "b.x"), outputs=(Output("x", Expr("1")), Output("X", Expr("2")))),
            "called",
        ),
        (lambda: equal("a.x", "a.y"), "not an equality between two streams"),
        (lambda: Window(WindowKind.ROWS, 0), "at least one row"),
        (lambda: Window(WindowKind.RANGE, -1), "negative"),
    ],
)
def test_a_query_that_makes_no_sense_cannot_be_made(make: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()  # type: ignore[operator]


def test_classes_follow_equalities() -> None:
    assert shown() == []
    assert shown(equal("a.x", "b.x"), equal("c.y", "d.y"), equal("b.x", "e.z")) == [
        {"a": ["`a`.`x`"], "b": ["`b`.`x`"], "e": ["`e`.`z`"]},
        {"c": ["`c`.`y`"], "d": ["`d`.`y`"]},
    ]


def test_classes_that_meet_late_become_one() -> None:
    assert shown(equal("a.x", "b.x"), equal("c.x", "d.x"), equal("d.x", "a.x")) == [
        {"a": ["`a`.`x`"], "b": ["`b`.`x`"], "c": ["`c`.`x`"], "d": ["`d`.`x`"]}
    ]


def test_an_alias_may_have_two_expressions_in_a_class() -> None:
    assert shown(equal("a.x", "b.x"), equal("a.y", "b.x")) == [
        {"a": ["`a`.`x`", "`a`.`y`"], "b": ["`b`.`x`"]}
    ]


def test_classes_by_another_key() -> None:
    found = classes([equal("a.x", "b.X"), equal("b.x", "c.x")], key=lambda e: e.sql.lower())
    assert [sorted(c) for c in found] == [["a", "b", "c"]]


def test_parts_that_equalities_connect() -> None:
    assert connected("abcd", [equal("d.x", "b.x")]) == [("a",), ("b", "d"), ("c",)]


def test_columns_of_an_expression() -> None:
    expr = Expr("(`a`.`info`).`city` = `b`.`x y` AND exists(`a`.`xs`, v -> v = `result_time`)")
    assert expr.columns == (("", "result_time"), ("a", "info"), ("a", "xs"), ("b", "x y"))
    assert expr.aliases == {"a", "b"}


def test_renaming_touches_columns_only() -> None:
    expr = Expr("transform(`a`.`xs`, v -> v + `a`.`x`) || '`a`.`x`' || (`a`.`s`).`x`")
    assert expr.rename(lambda alias, column: f"{alias}_{column}") == (
        "transform(a_xs, v -> v + a_x) || '`a`.`x`' || (a_s).`x`"
    )


def test_trees_are_new_each_time() -> None:
    expr = Expr("`a`.`x` + 1")
    assert expr.tree is not expr.tree
    assert expr.tree.parent is None
    assert Expr(expr.tree.sql("spark")).columns == expr.columns


def test_a_parsed_query_is_what_code_would_make() -> None:
    text = "SELECT a.x FROM s [RANGE 5 microseconds] a, s [RANGE 5 us] b WHERE a.x = b.x"
    parsed = parse(text, name="q", schemas={"s": {"x": "int"}})
    made = query(equal("a.x", "b.x"), outputs=(Output("x", Expr.column("a", "x")),))
    assert (parsed.inputs, parsed.equalities, parsed.outputs) == (made.inputs, made.equalities, made.outputs)

"""Conditions that operators decide before Spark does."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from tests.simulate.sql_cases import W, check, ids, known_of, made_of, planned_by
from thalweg.operators.comparisons import Comparison, comparison, either
from thalweg.query.model import Expr

OPERATORS = ("<", "<=", ">", ">=", "<>", "=")
TIME = pa.timestamp("us", "UTC")


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [-3, 0, 1, 2, None]),
        (pa.float64(), [float("nan"), float("inf"), -0.0, 0.0, 1.5, None]),
        (pa.float32(), [float("nan"), 0.1, None]),
        (TIME, [0, 1, 2, None]),
        (pa.date32(), [0, 1, None]),
    ],
)
def test_as_duckdb_decides(kind, values, operator):
    """DuckDB orders NaN as Spark does, after every other number."""
    rng = random.Random(1)
    rows = [(rng.choice(values), rng.choice(values)) for _ in range(300)]
    batch = pa.record_batch([pa.array([r[i] for r in rows], kind) for i in (0, 1)], names=["a.v", "b.w"])
    rows_ = pa.Table.from_batches([batch])  # noqa: F841
    with duckdb.connect() as db:
        wanted = db.sql(f'SELECT coalesce("a.v" {operator} "b.w", false) FROM rows_').fetchall()
    assert Comparison("a.v", operator, "b.w").holds(batch).tolist() == [w for (w,) in wanted]


def test_equality_of_text_is_by_value():
    columns = [pa.array(["x", "y", None, "", None]), pa.array(["x", "z", None, "", "y"])]
    batch = pa.record_batch(columns, names=["a.v", "b.w"])
    assert Comparison("a.v", "=", "b.w").holds(batch).tolist() == [True, False, False, True, False]


def test_a_slice_is_decided_by_its_own_values():
    columns = [pa.array([9, 1, None, 2, 0]), pa.array([0, 2, 5, 1, 9])]
    batch = pa.record_batch(columns, names=["a.v", "b.w"]).slice(1, 3)
    assert Comparison("a.v", "<", "b.w").holds(batch).tolist() == [True, False, False]


KINDS = {"a.i": pa.int64(), "b.j": pa.int16(), "a.d": pa.float64(), "b.s": pa.string(), "b.t": TIME}


@pytest.mark.parametrize(
    ("sql", "decided"),
    [
        ("`a`.`i` < `b`.`j`", True),
        ("`a`.`i` != `b`.`j`", True),
        ("`a`.`i` < `a`.`d`", False),  # Spark compares them as doubles, and a long may not be one
        ("`a`.`i` < `b`.`s`", False),
        ("`a`.`i` < `b`.`t`", False),
        ("`a`.`i` + 1 < `b`.`j`", False),
        ("`a`.`i` = `b`.`j`", False),
        ("NOT `a`.`i` < `b`.`j`", False),
        ("`a`.`i` < `b`.`j` OR `a`.`i` = 0", False),
        ("`a`.`i` BETWEEN 0 AND `b`.`j`", False),
        ("`a`.`i` <=> `b`.`j`", False),
    ],
)
def test_only_what_is_certain_is_decided(sql, decided):
    found = comparison(Expr(sql), lambda alias, column: f"{alias}.{column}", KINDS.__getitem__)
    assert (found is not None) == decided


EITHER_KINDS = {**KINDS, "a.s": pa.string(), "b.d": pa.float64(), "b.f": pa.float32()}
A, B = "`a`.`i`", "`b`.`j`"


@pytest.mark.parametrize(
    ("sql", "decided"),
    [
        (f"({A} = {B} OR `a`.`s` = `b`.`s`)", ["=", "="]),
        (f"{A} < {B} OR ({A} + 1 = {B} AND {A} > {B}) OR `a`.`d` = `b`.`d`", ["<", ">", "="]),
        (f"{A} = {B} OR {A} = 0", []),
        (f"{A} = {B} OR `a`.`s` < `b`.`s`", []),
        (f"{A} = {B} OR `a`.`d` = `b`.`f`", []),
        (f"{A} = {B} OR NOT {A} = {B}", []),
        (f"{A} = {B}", []),
    ],
)
def test_each_branch_of_an_or_must_be_decided(sql, decided):
    found = either(Expr(sql), lambda alias, column: f"{alias}.{column}", EITHER_KINDS.__getitem__)
    assert ([] if found is None else [found.operator, *(o.operator for o in found.others)]) == decided


def test_an_or_holds_if_a_branch_does():
    columns = [
        pa.array([1, 2, None, 3]),
        pa.array([1, 9, 5, 9]),
        pa.array(list("xyzz")),
        pa.array(list("yyzx")),
    ]
    batch = pa.record_batch(columns, names=["a.i", "b.j", "a.s", "b.s"])
    one = Comparison("a.i", "=", "b.j", others=(Comparison("a.s", "=", "b.s"),))
    assert one.holds(batch).tolist() == [True, True, True, False]


LONGS = {"x": "long", "y": "long", "id": "long"}
THREE = f"a {W}, b {W}, c {W}"
ON = "a.x = b.x AND b.x = c.x"


@pytest.mark.parametrize("name", ["optimal", "linear-optimal", "semijoin-greedy", "pmjoin"])
@pytest.mark.parametrize("condition", ["a.y < b.y", "a.y <> c.y AND b.y >= a.y", "a.ts <= b.ts"])
def test_decided_where_the_members_meet(name, condition):
    known = known_of([0, 1, 2], LONGS, popular=(0, 1, 2) if name == "pmjoin" else ())
    planned = planned_by(known, [ids("abc", THREE, f"{ON} AND {condition}")], name)
    sent = [o for s in made_of(known, planned).program.operators for o in s.outlets if o.where]
    assert sent
    check(known, planned, seed=3)


def test_who_reuses_a_join_without_the_condition_gets_what_it_asks_for():
    """A join that decides a condition is no use to a query that does not have it."""
    known = known_of([0, 1, 2], LONGS)
    sqls = [
        ids("abc", THREE, f"{ON} AND a.y < b.y"),
        ids("abc", THREE, ON),
        ids("abc", THREE, f"{ON} AND a.y < b.y AND b.y < c.y"),
    ]
    for order in (sqls, sqls[::-1]):
        check(known, planned_by(known, order, "optimal"), seed=5)

"""`result_id` in a query: what it is made of, and where it may stand."""

from __future__ import annotations

import pytest

from thalweg.errors import UserError
from thalweg.query import parse

SCHEMAS = {"s": {"ts": "timestamp", "k": "string"}, "t": {"ts": "timestamp", "k": "string", "n": "double"}}
REST = "FROM s [RANGE 1 MINUTE] a, t [RANGE 1 MINUTE] b WHERE a.k = b.k"


def outputs(select, schemas=SCHEMAS, rest=REST):
    return parse(f"SELECT {select} {rest}", name="q", schemas=schemas).outputs


def test_it_reads_all_columns_of_all_members():
    (own,) = outputs("result_id")
    assert (own.name, own.is_id) == ("result_id", True)
    assert own.expr.columns == (("a", "k"), ("a", "ts"), ("b", "k"), ("b", "n"), ("b", "ts"))


def test_columns_travel_for_it_only_if_it_is_asked_for():
    assert [o.is_id for o in outputs("*")] == [False] * 5
    assert outputs("a.k")[0].expr.columns == (("a", "k"),)


def test_it_may_have_another_name():
    plain, named = outputs("a.k, Result_ID AS id")
    assert (plain.is_id, named.is_id, named.name) == (False, True, "id")


def test_a_column_of_that_name_is_meant_first():
    schemas = {**SCHEMAS, "s": {**SCHEMAS["s"], "result_id": "int"}}
    (own,) = outputs("result_id", schemas)
    assert (own.is_id, own.expr.sql) == (False, "`a`.`result_id`")


def test_a_stream_that_is_no_part_of_a_result_is_no_part_of_its_id():
    rest = "FROM s [RANGE 1 MINUTE] a LEFT SEMI JOIN t [RANGE 1 MINUTE] b ON a.k = b.k"
    (own,) = outputs("result_id", rest=rest)
    assert own.expr.aliases == {"a"}


@pytest.mark.parametrize(
    ("select", "rest"),
    [("upper(result_id) AS x", REST), ("result_id + 1 AS x", REST), ("a.k", f"{REST} AND result_id = 'x'")],
)
def test_it_is_no_part_of_an_expression(select, rest):
    with pytest.raises(UserError, match="result_id is no part of an expression; select it as a column"):
        outputs(select, rest=rest)

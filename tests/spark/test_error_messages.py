"""Errors of Spark as users are told them."""

import pytest
from pyspark.errors import PySparkException

from thalweg.errors import RunError, UserError
from thalweg.spark.error_messages import in_our_words


def told(spark, expression):
    with pytest.raises(PySparkException) as failed:
        spark.range(1).selectExpr(f"{expression} AS x").collect()
    return in_our_words(failed.value, "q.sql")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("CAST(concat('a', id) AS INT)", "q.sql: [CAST_INVALID_INPUT] The value 'a0' of the type"),
        ("array()[id]", "q.sql: [INVALID_ARRAY_INDEX] The index 0 is out of bounds; use the SQL function"),
        ("1 / id", "q.sql: [DIVIDE_BY_ZERO] Division by zero; use `try_divide`"),
    ],
)
def test_values_that_do_not_fit_are_the_users_to_mend(spark, expression, message):
    error = told(spark, expression)
    assert isinstance(error, UserError)
    assert str(error).startswith(message)
    assert "SQLSTATE" not in str(error)
    assert "\n" not in str(error)


def test_other_failures_are_not(spark):
    error = told(spark, "raise_error(concat('gone ', id))")
    assert isinstance(error, RunError)
    assert str(error) == "q.sql: [USER_RAISED_EXCEPTION] gone 0"


def test_what_a_worker_of_ours_says_is_said_as_it_is():
    inside = PySparkException("Traceback ...\nthalweg.errors.UserError: stream a: too much; less\n  at java")
    assert str(in_our_words(inside, "q.sql")) == "stream a: too much; less"


def test_a_stream_that_fails_outside_a_batch():
    text = "[STREAM_FAILED] Query [id = 1] terminated with exception: no such host SQLSTATE: XXKST\n=="
    assert str(in_our_words(PySparkException(text), "q.sql")) == "q.sql: no such host"

"""Errors of Spark as users are told them."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

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


def test_a_disk_that_fails_is_not_a_damaged_checkpoint():
    text = (
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030\n"
        "Caused by: java.io.FileNotFoundException: /x/.3.changelog.tmp (Read-only file system)\n"
    )
    error = in_our_words(PySparkException(text), "q.sql")
    assert isinstance(error, RunError)
    assert "Read-only file system; mend the disk, then run the command again" in str(error)


def test_a_stream_that_fails_outside_a_batch():
    text = "[STREAM_FAILED] Query [id = 1] terminated with exception: no such host SQLSTATE: XXKST\n=="
    assert str(in_our_words(PySparkException(text), "q.sql")) == "q.sql: no such host"


def test_what_fails_in_a_worker_is_said_with_its_cause():
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "worker.py", line 3, in f\n    int("x")\n    ^^^^^\nValueError: no number: x'
    )
    assert str(in_our_words(PythonException(text), "q.sql")) == "q.sql: ValueError: no number: x"


class Java(Py4JJavaError):
    """An error of Java, without Java."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return f"An error occurred while calling o612.parquet.\n: {self.text}"


def test_what_fails_in_java_is_said_with_its_cause():
    aborted = (
        "org.apache.spark.SparkException: Job aborted\n\tat x\nCaused by: java.lang.Odd: too much\n\tat y"
    )
    told = in_our_words(Java(aborted), "q.sql")
    assert isinstance(told, RunError)
    assert str(told) == "q.sql: Odd: too much"
    value = "org.x.SparkX: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n\tat x"
    told = in_our_words(Java(value), "q.sql")
    assert isinstance(told, UserError)
    assert str(told) == "q.sql: [DIVIDE_BY_ZERO] Division by zero; use `try_divide`"


def test_a_file_that_is_gone_is_named():
    text = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///my%20data/1.json. "
    told = in_our_words(Java(f"org.apache.spark.SparkException: {text}File does not exist."), "q.sql")
    assert isinstance(told, UserError)
    assert str(told) == "/my data/1.json: is missing; put it back; the same command continues"


@pytest.mark.parametrize(
    "text",
    [
        "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred during loading state",
        "Failed to read log file file:/out/_thalweg/checkpoint/offsets/0",
    ],
)
def test_a_damaged_checkpoint_is_called_so(text):
    error = in_our_words(PySparkException(f"{text}. SQLSTATE: 58030\n\tat x"), "q.sql")
    assert isinstance(error, RunError)
    assert str(error) == (
        f"Spark's checkpoint is damaged: {text}; put it back as it was, or start the run in a new folder"
    )


LOST = """[STREAM_FAILED] Query [id = 1] terminated with exception: [KAFKA_DATA_LOSS.X] \
Some data may have been lost because they are not available in Kafka any more;
topic was processed.
Reason: Partition t-1's offset was changed from 30 to 5. SQLSTATE: 22000
\tat org.apache.spark"""
TRIMMED = """: org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.X] \
Some data may have been lost because they are not available in Kafka any more;
Reason:
Could not read records in offset [40, 50) for topic partition t-1
with consumer group g. SQLSTATE: 22000"""
ELDER = """: org.apache.spark.SparkException: Cannot fetch offset 40 (TopicPartition: t-1).
Some data may have been lost because they are not available in Kafka any more"""
JAVA = "[STREAM_FAILED] Query [id = 1] terminated with exception: org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (LOST, "records of a topic were gone before they were read: Partition t-1's offset was"),
        (LOST, "offset was changed from 30 to 5; the topic was trimmed"),
        (TRIMMED, "were read: Could not read records in offset [40, 50) for topic partition t-1; the"),
        (ELDER, "before they were read: Cannot fetch offset 40 (TopicPartition: t-1); the topic"),
        (JAVA + "UnknownTopicOrPartitionException: This server does not", "a topic does not exist; "),
        (JAVA + "TimeoutException: Timed out. Call: listTopics", "answers: Timed out. Call: listTopics; "),
    ],
)
def test_what_is_wrong_with_a_topic(text, what):
    told = in_our_words(PySparkException(text), "q.sql")
    assert isinstance(told, UserError)
    assert what in str(told)
    assert "\n" not in str(told)

"""What Spark's errors say, in a line, and whose fault they are."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from thalweg.errors import RunError, UserError
from thalweg.files import FAILING, FULL, unusable

_OURS = re.compile(r"thalweg\.errors\.(UserError|RunError): (.+)")
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ", re.DOTALL)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")
_JAVA = re.compile(r"^(?:: |Caused by: )([\w.$]+)(?:: (.*))?$", re.MULTILINE)
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE
)
_FILE = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (.+?)\.\s")
_TYPES = re.compile(r"column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\.")
_WRONG_TYPE = "UnsupportedOperationException: org.apache.parquet.column"  # Spark does not say of which file
_LOST = "Some data may have been lost"
_HOW_LOST = re.compile(r"Reason:\s*([^\n]+)")
_NOT_FETCHED = re.compile(r"(Cannot fetch [^\n]+)")
_NO_TOPIC = re.compile(r"UnknownTopicOrPartitionException|InvalidTopicException")
_NO_BROKER = re.compile(r"org\.apache\.kafka\.common\.errors\.TimeoutException(?:: ([^\n]+))?")
_CHECKPOINT = re.compile(r"CANNOT_LOAD_STATE_STORE|Failed to read log file")
_GO_ON = "the same command continues"
_DATA_EXCEPTION = "22"  # the class of SQLSTATEs: a value that an expression can't be computed for


def reason(error: Exception) -> str:
    """The first line of an error of Spark, without what only Spark's own log needs.

    >>> reason(PySparkException("[PARSE_SYNTAX_ERROR] Syntax error at or near ','. SQLSTATE: 42601 (line 1)"))
    "[PARSE_SYNTAX_ERROR] Syntax error at or near ','"
    """
    text = _FAILED.sub("", str(error).strip())
    if isinstance(error, Py4JJavaError):
        text = _thrown(text)
    return (text.splitlines() or [""])[0].split(" SQLSTATE", 1)[0].rstrip(" ;.")


def in_our_words(error: Exception, where: str) -> Exception:
    """An error of a run as it is told: a `UserError` where the queries, data or sources are at fault.

    A message of ours that was raised in a worker comes back inside Spark's.
    """
    text = str(error)
    full = next((name for name in FULL if name in text), None)
    if ours := _OURS.search(text):
        theirs = ours[1] == "UserError" and not full
        what = ours[2].split(" SQLSTATE: ", 1)[0].strip()
        return UserError(what) if theirs else RunError(what)
    if failing := next((name for name in FAILING if name in text), None):
        return RunError(
            f"a file can't be written or read: {failing}; mend the disk, then run the command again"
        )
    if isinstance(error, OSError) and error.filename:
        return unusable(error.filename, error)
    if full:
        return RunError(f"{full}; make room, then run the same command again")
    if "PATH_NOT_FOUND" in text:
        return UserError(reason(error))
    if file := _FILE.search(text):
        return _unreadable(file[1], file[2], text)
    if _WRONG_TYPE in text:
        return UserError(
            "a Parquet file stores a column in another type than the catalog declares",
            where=where,
            remedy="declare the column as the file stores it; an unsigned 64-bit integer is DECIMAL(20,0)",
        )
    if not isinstance(error, PySparkException | Py4JJavaError):
        return error
    if told := _of_kafka(text, where):
        return told
    if _CHECKPOINT.search(text):
        return RunError(
            f"Spark's checkpoint is damaged: {reason(error)}; "
            "put it back as it was, or start the run in a new folder"
        )
    if raised := _PYTHON.findall(text):
        return RunError(f"{where}: {raised[-1]}")
    what, remedy = _sentences(reason(error))
    state = _SQLSTATE.search(text)
    if state and state[1].startswith(_DATA_EXCEPTION):
        return UserError(what, where=where, remedy=remedy)
    return RunError(f"{where}: {what}")


def _of_kafka(text: str, where: str) -> UserError | None:
    """An error of a topic or a broker; None where it is another one."""
    if _LOST in text:
        how = _HOW_LOST.search(text) or _NOT_FETCHED.search(text)
        what = "" if how is None else f": {how[1].split(' SQLSTATE', 1)[0].strip(' .')}"
        return UserError(
            f"records of a topic were gone before they were read{what}",
            where=where,
            remedy="the topic was trimmed, or deleted and made anew; to read what is left, name a new folder",
        )
    if _NO_TOPIC.search(text):
        return UserError(
            "a topic does not exist", where=where, remedy="create it, then run the command again"
        )
    if found := _NO_BROKER.search(text):
        return UserError(
            f"no Kafka broker answers{': ' + found[1].strip(' .') if found[1] else ''}",
            where=where,
            remedy="is kafka.bootstrap.servers right, and does it run?",
        )
    return None


def _thrown(text: str) -> str:
    """What Java says: the error that has a name in Spark, or else the cause of all.

    >>> _thrown("calling o1.x.\\n: a.SparkException: aborted\\n\\tat b\\nCaused by: c.Odd: too much")
    'Odd: too much'
    """
    errors = _JAVA.findall(text)
    named = [message for _, message in errors if _CONDITION.match(message)]
    rest = [": ".join(filter(None, (kind.rsplit(".", 1)[-1], message))) for kind, message in errors[-1:]]
    return (named or rest or [text])[0]


def _unreadable(why: str, name: str, text: str) -> UserError:
    """A file of a source that Spark can't read as the catalog has it."""
    path = unquote(urlsplit(name).path) if name.startswith("file:") else name
    if why == "FILE_NOT_EXIST":
        return UserError("is missing", where=path, remedy=f"put it back; {_GO_ON}")
    if types := _TYPES.search(text):
        column, declared, stored = types.groups()
        stored = _stored(path, column) or stored
        return UserError(
            f"column {column} is {stored} in the file and {declared} in the catalog",
            where=path,
            remedy=_other_type(declared, stored),
        )
    cause = next(
        (message for _, message in _JAVA.findall(text) if message and not _FILE.search(message)), why
    )
    if "is not a Parquet file" in cause:
        cause = "it is cut short, or not a Parquet file"
    return UserError(
        f"can't be read: {cause}", where=path, remedy=f"replace it with a readable file; {_GO_ON}"
    )


def _other_type(declared: str, stored: str) -> str:
    if "[ns" in stored:
        return "write the file with microseconds"
    if declared.startswith("timestamp") and stored.startswith(("int", "uint", "double", "float")):
        return "if it is the stream's time, write time_unit: seconds, milliseconds or microseconds"
    return "write the file anew, or declare the column as it is"


def _stored(path: str, column: str) -> str | None:
    """The type of a column in a Parquet file. Spark only tells how it is stored, such as INT64."""
    try:
        return str(pq.read_schema(path).field(column).type)
    except (OSError, KeyError, pa.ArrowException):
        return None


def _sentences(text: str) -> tuple[str, str | None]:
    """The first sentence, which says what is wrong, and the one that says what to use instead.

    >>> _sentences("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. If necessary, do")
    ('[DIVIDE_BY_ZERO] Division by zero', 'use `try_divide` to tolerate it')
    """
    condition = _CONDITION.match(text)
    start = condition.end() if condition else 0
    first, *others = re.split(r"(?<=[^.])\. (?=[A-Z])", text[start:])
    use = next((s for s in others if s.startswith("Use ")), None)
    return text[:start] + first, None if use is None else "u" + use[1:].rstrip(".")

"""Whatever the catalog file holds, it is a catalog or an error that the user can read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.catalog import load, parse_type
from thalweg.errors import UserError
from thalweg.units import parse_duration

from .test_load import FULL, SMALL

WORDS = [
    "sites",
    "streams",
    "links",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "<<",
    "!!int ",
    "~",
    "\t",
    "\n",
]
WORDS += [
    "-1",
    ".nan",
    "1e999",
    "0x",
    "'",
    '"',
    "|\n",
    "%YAML 1.1\n",
    "---\n",
    "no",
    "10 s",
    "map<int",
    "\x00",
    "\ufeff",
]


def holds(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "catalog.yaml")
        path.write_bytes(content)
        try:
            assert load(path).streams
        except UserError as error:
            assert "\x1b" not in str(error)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    text = draw(st.sampled_from([FULL, SMALL]))
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.sampled_from(["drop", "swap", "twice", "cut", "insert"])):
            case "drop":
                del lines[i]
            case "swap":
                lines[i], lines[j] = lines[j], lines[i]
            case "twice":
                lines.insert(j, lines[i])
            case "cut":
                at = draw(st.integers(0, len(lines[i])))
                lines[i] = lines[i][:at] + lines[i][at + draw(st.integers(1, 9)) :]
            case "insert":
                at = draw(st.integers(0, len(lines[i])))
                lines[i] = lines[i][:at] + draw(st.sampled_from(WORDS)) + lines[i][at:]
        text = "\n".join(lines) or "\n"
    return text.encode()


@settings(max_examples=120, deadline=None, derandomize=True)
@given(mutated())
def test_catalogs_with_something_changed(content: bytes) -> None:
    holds(content)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from(WORDS), max_size=30).map(lambda w: "".join(w).encode()),
    )
)
def test_files_that_hold_anything(content: bytes) -> None:
    holds(content)


TYPE_WORDS = [
    "array",
    "map",
    "struct",
    "<",
    ">",
    "(",
    ")",
    ",",
    ":",
    "int",
    "decimal",
    "9",
    "interval",
    "day",
    "to",
    "`",
    "a",
    " ",
]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(TYPE_WORDS), max_size=25).map("".join)))
def test_types_and_durations_that_are_anything(text: str) -> None:
    for read in (parse_type, parse_duration):
        try:
            read(text)
        except UserError as error:
            assert len(str(error)) < 400


TYPES = st.recursive(
    st.sampled_from(
        ["int", "string", "decimal(10, 2)", "timestamp_ntz", "interval day to second", "varchar(3)"]
    ),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(inner, inner).map(lambda kv: f"map<{kv[0]}, {kv[1]}>"),
        st.lists(inner, max_size=3).map(
            lambda ts: "struct<" + ", ".join(f"`f {i}`: {t}" for i, t in enumerate(ts)) + ">"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TYPES)
def test_types_are_written_as_they_are_read(text: str) -> None:
    assert parse_type(text).sql == text

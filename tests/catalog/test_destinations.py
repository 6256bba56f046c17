"""The `sinks` of a catalog: what is read, and what is said when it is wrong."""

# ruff: noqa: E501 - tables, one case a line

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.catalog import Catalog, load
from thalweg.catalog.destinations import KINDS
from thalweg.catalog.model import PARQUET, Destination
from thalweg.errors import UserError
from thalweg.spark.sinks import table

STREAM = """\
sites: {here: {}}
streams: {s: {site: here, time: ts, schema: {ts: timestamp}, source: {format: rate}}}
sinks:
"""
BROKER = "kafka.bootstrap.servers: b"


def catalog(folder: Path, sinks: str) -> Catalog:
    file = folder / "catalog.yaml"
    file.write_text(STREAM + sinks)
    return load(file)


def test_sinks_are_read(tmp_path: Path) -> None:
    read = catalog(
        tmp_path,
        f"""\
  q:
    - {{format: Parquet}}
    - {{format: kafka, value: json, value_options: {{pretty: true}}, key: [a, B], options: {{{BROKER}, topic: t}}}}
  r:
    - {{format: orc, options: {{path: out/r, compression: zlib}}}}
    - {{format: myown}}
""",
    )
    place = f"{tmp_path}/catalog.yaml, line "
    assert read.destinations("q") == (
        Destination(format=PARQUET, where=f"{place}5: sinks.q[0]"),
        Destination(
            format="kafka",
            options={"kafka.bootstrap.servers": "b", "topic": "t"},
            value="json",
            value_options={"pretty": "true"},
            key=("a", "B"),
            where=f"{place}6: sinks.q[1]",
        ),
    )
    orc, own = read.destinations("r")
    assert orc.options == {"path": f"{tmp_path}/out/r", "compression": "zlib"}
    assert (own.format, own.options) == ("myown", {})


def test_without_sinks_results_are_parquet_files(tmp_path: Path) -> None:
    assert catalog(tmp_path, "  q: [{format: console}]\n").destinations("r") == (Destination(format=PARQUET),)


@pytest.mark.parametrize(
    ("sinks", "says"),
    [
        ("  q: {format: kafka}", "line 4: sinks.q: expected a list, found a mapping"),
        ("  q: []", "sinks.q: the list of sinks is empty"),
        ("  1q: [{format: orc}]", "line 4: sinks.1q: '1q' can't be the name of a query"),
        ("  q:\n    - {options: {}}", "line 5: sinks.q[0]: the key 'format' is missing"),
        ("  q: [{format: orc, path: x}]", "sinks.q[0].path: unknown key 'path'"),
        ("  q: [{format: parquet, options: {path: x}}]", "sinks.q[0].options: a sink of the format parquet has no option 'path'; its files are in the folder that --out names"),
        ("  q: [{format: parquet}, {format: parquet}]", "sinks.q: two sinks are parquet"),
        ("  q: [{format: kafka}]", "sinks.q[0]: a sink of the format kafka needs the option kafka.bootstrap.servers"),
        (f"  q: [{{format: kafka, options: {{{BROKER}}}}}]", "sinks.q[0].options: a sink of the format kafka needs the option topic"),
        (f"  q: [{{format: kafka, value: xml, options: {{{BROKER}, topic: t}}}}]", "sinks.q[0].value: unknown encoding 'xml'; there is json, avro"),
        (f"  q: [{{format: kafka, key: [a, A], options: {{{BROKER}, topic: t}}}}]", "sinks.q[0].key: a key is one column or several different ones"),
        (f"  q: [{{format: kafka, value: avro, value_options: {{a: b}}, options: {{{BROKER}, topic: t}}}}]", "sinks.q[0].value_options: Avro takes no options"),
        ("  q: [{format: jdbc, options: {url: x}}]", "sinks.q[0].options: a sink of the format jdbc needs the option dbtable"),
        ("  q: [{format: jdbc, value: json, options: {url: x, dbtable: t}}]", "sinks.q[0].value: a sink of the format jdbc has no `value`; it is for kafka"),
        ("  q: [{format: orc, key: a}]", "sinks.q[0].key: a sink of the format orc has no `key`; it is for"),
        ("  q: [{format: console, options: {row: 3}}]", "unknown option of the format console 'row'; did you mean 'rows'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, sinks: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        catalog(tmp_path, sinks + "\n")
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/catalog.yaml, line ")


def test_each_format_with_a_sink_of_its_own_is_known_to_the_catalog() -> None:
    assert {PARQUET, *table.KINDS} == set(KINDS)

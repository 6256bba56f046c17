"""The catalog file: what is read, and what is said when it is wrong."""

# ruff: noqa: E501 - tables, one case a line

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from thalweg.catalog import Catalog, Costs, Link, Links, load
from thalweg.errors import UserError
from thalweg.plan.options import Objective, PlanOptions
from thalweg.planners.table import PLANNERS, make_plan
from thalweg.query import parse

FULL = """\
sites: {n1: {}, n2: {}, no: {}}
links:
  default: {latency_ms: 25, mbps: 1.0, usd_per_gb: 0.02}
  pairs:
    - {between: [n1, n2], latency_ms: 5, mbps: 10, usd_per_gb: 0.01}
    - {from: n2, to: n1, latency_ms: 5, mbps: 2, usd_per_gb: 0.09}
streams:
  s1:
    site: n1
    time: TS
    order: [seq, size]
    lateness: 5 min
    idle: 30 seconds
    max_ahead: 1 hour
    schema: {ts: timestamp, dest: string, size: long, seq: int}
    source: {format: parquet, options: {path: data/s1, recursiveFileLookup: true, maxFilesPerTrigger: 1}}
    stats:
      rate: 100.2
      bytes: 1
      widths: {dest: 8}
      distinct: {dest: 3}
      rates: {dest: {a: 0.1, 007: 0.1, true: 100}, size: {1: 2}}
  s2:
    site: no
    time: ts
    order: seq
    schema: {ts: timestamp_ntz, seq: int, dest: string, info: "struct<city: string, m: map<int, int>>"}
    source: {format: rate}
joins:
  - {left: s1.dest, right: s2.DEST, selectivity: 0.001}
costs: {probe_s: 2.0e-7, interval_s: 0.5}
"""

SMALL = """\
sites: {n1: {}, n2: {}}
streams:
  s1:
    site: n1
    time: ts
    schema: {ts: timestamp, dest: string, size: int}
    source: {format: parquet, options: {path: s1}}
"""


def catalog(folder: Path, text: str | bytes) -> Catalog:
    path = folder / "catalog.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path)


def error(folder: Path, text: str | bytes) -> str:
    with pytest.raises(UserError) as raised:
        catalog(folder, text)
    message = str(raised.value)
    assert "\x1b" not in message
    return message


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    read = catalog(tmp_path, FULL)
    assert list(read.sites) == ["n1", "n2", "no"]
    s1 = read.streams["s1"]
    assert (s1.name, s1.site, s1.time, s1.order) == ("s1", "n1", "ts", ("seq", "size"))
    assert (s1.lateness, s1.idle, s1.max_ahead) == (300_000_000, 30_000_000, 3_600_000_000)
    assert s1.columns == {"ts": "timestamp", "dest": "string", "size": "long", "seq": "int"}
    assert s1.source.options == {
        "path": str(tmp_path / "data/s1"),
        "recursiveFileLookup": "true",
        "maxFilesPerTrigger": "1",
    }
    assert s1.stats.rate == 100.2
    assert s1.stats.rates == {"dest": {"a": 0.1, "007": 0.1, "true": 100}, "size": {1: 2}}
    assert read.streams["s2"].order == ("seq",)
    assert read.streams["s2"].lateness == 10_000_000
    assert read.costs == Costs(probe_s=2e-7, interval_s=0.5)
    assert read.selectivity(("s2", "dest"), ("s1", "dest")) == 0.001
    assert read.selectivity(("s2", "dest"), ("s1", "size")) is None
    assert read.schemas["s1"]["size"] == "long"


WRITTEN = """sites: {{n1: {{}}}}
streams:
  s: {{site: n1, time: ts, {more} schema: {{ts: {kind}, k: int}}, source: {{format: text, options: {{path: s}} {value}}}}}
"""


@pytest.mark.parametrize(
    ("more", "kind", "value", "raw"),
    [
        ("", "timestamp", "", None),
        ("", "timestamp", ", value: json", "string"),
        ("", "timestamp", ", value: json, value_options: {timestampFormat: yyyy}", None),
        ("", "timestamp_ntz", ", value: csv", None),
        ("time_unit: seconds,", "timestamp", "", "bigint"),
        ("time_unit: seconds,", "timestamp", ", value: json", "decimal(38,6)"),
        ("time_unit: milliseconds,", "double", ", value: json", "double"),
        ("time_format: yyyy,", "string", "", "string"),
    ],
)
def test_a_time_in_another_form_is_a_timestamp(
    tmp_path: Path, more: str, kind: str, value: str, raw: str | None
) -> None:
    read = catalog(tmp_path, WRITTEN.format(more=more, kind=kind, value=value)).streams["s"]
    assert read.raw_time == raw
    assert read.columns["ts"] == ("timestamp_ntz" if kind == "timestamp_ntz" else "timestamp")


@pytest.mark.parametrize(
    ("more", "kind", "value", "says"),
    [
        (
            "",
            "long",
            "",
            "of type bigint; it must be a timestamp or timestamp_ntz; or say what it is with time_unit",
        ),
        ("time_unit: hours,", "long", "", "streams.s.time_unit"),
        ("time_unit: seconds,", "string", "", "of type string; with time_unit it is a number"),
        ("time_format: yyyy,", "int", "", "of type int; with time_format it is a string"),
        ("time_unit: seconds, time_format: yyyy,", "int", "", "keep time_unit or time_format"),
        ("", "timestamp", ", value: xml", "streams.s.source.value"),
        ("", "timestamp", ", value: avro", "a value in avro needs the option 'schema'"),
        ("", "timestamp", ", value: protobuf, value_options: {descriptor: a}", "needs the option 'message'"),
        ("", "timestamp", ", columns: {k: key}", "`columns` is for a source with `value`"),
        ("", "timestamp", ", value: json, columns: {x: key}", "unknown column 'x'"),
    ],
)
def test_what_is_wrong_with_a_time_or_a_value(
    tmp_path: Path, more: str, kind: str, value: str, says: str
) -> None:
    assert says in error(tmp_path, WRITTEN.format(more=more, kind=kind, value=value))


def test_a_one_way_link_goes_before_a_two_way_one(tmp_path: Path) -> None:
    links = catalog(tmp_path, FULL).links
    assert links.between("n1", "n2") == Link(latency_ms=5, mbps=10, usd_per_gb=0.01)
    assert links.between("n2", "n1") == Link(latency_ms=5, mbps=2, usd_per_gb=0.09)
    assert links.between("n1", "no") == Link(latency_ms=25, mbps=1, usd_per_gb=0.02)
    assert links.between("n1", "n1") is None


def test_without_links_there_is_a_full_mesh(tmp_path: Path) -> None:
    assert catalog(tmp_path, SMALL).links == Links()
    assert Links().between("n1", "n2") == Link(latency_ms=1, mbps=None, usd_per_gb=0)


def test_with_pairs_and_no_default_only_those_links_exist(tmp_path: Path) -> None:
    links = catalog(tmp_path, SMALL + "links: {pairs: [{from: n1, to: n2}]}\n").links
    assert links.between("n1", "n2") == Link()
    assert links.between("n2", "n1") is None


def test_a_pair_takes_what_it_does_not_say_from_the_default(tmp_path: Path) -> None:
    text = SMALL + "links: {default: {mbps: 7}, pairs: [{between: [n1, n2], latency_ms: 3}]}\n"
    assert catalog(tmp_path, text).links.between("n2", "n1") == Link(latency_ms=3, mbps=7)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("data/s1", "{folder}/data/s1"),
        ("data/*.parquet", "{folder}/data/*.parquet"),
        ("'data/{a,b}'", "{folder}/data/{a,b}"),
        ("[data/a, data/sub/b]", "{folder}/data/{a,sub/b}"),
        ("[data/a]", "{folder}/data/a"),
        ("/abs/s1", "/abs/s1"),
        ("s3a://bucket/x", "s3a://bucket/x"),
        ("'file:/x'", "file:/x"),
        ("2024", "{folder}/2024"),
    ],
)
def test_paths_are_relative_to_the_catalog(tmp_path: Path, written: str, expected: str) -> None:
    read = catalog(tmp_path, SMALL.replace("path: s1", f"path: {written}"))
    assert read.streams["s1"].source.options["path"] == expected.replace("{folder}", str(tmp_path))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("true", "true"),
        ("False", "false"),
        ("10", "10"),
        ("1_000", "1000"),
        ("0.5", "0.5"),
        ("''", ""),
        ("no", "no"),
    ],
)
def test_options_become_the_text_that_spark_wants(tmp_path: Path, written: str, expected: str) -> None:
    read = catalog(tmp_path, SMALL.replace("path: s1", f"x: {written}"))
    assert read.streams["s1"].source.options == {"x": expected}


def test_anchors_are_followed(tmp_path: Path) -> None:
    text = (
        SMALL
        + "  s2: &s\n    site: n2\n    time: ts\n    schema: {ts: timestamp}\n    source: {format: rate}\n  s3: *s\n"
    )
    assert catalog(tmp_path, text).streams["s3"].site == "n2"


REPLACED = [  # what is replaced in SMALL, by what, where the error is, what it says
    ("site: n1", "site: n3", "line 4: streams.s1.site", "unknown site 'n3'; there is n1, n2"),
    ("site: n1", "sight: n1", "line 4: streams.s1.sight", "unknown key 'sight'; did you mean 'site'?"),
    ("    site: n1\n", "", "line 3: streams.s1", "the key 'site' is missing"),
    ("time: ts", "time: when", "line 5: streams.s1.time", "unknown column 'when'; there is ts, dest, size"),
    ("time: ts", "time: dest", "line 5: streams.s1.time", "of type string; it must be a timestamp"),
    ("ts: timestamp", "ts: array<timestamp>", "line 5", "of type array<timestamp>"),
    ("ts: timestamp", "ts: date", "line 5", "of type date"),
    ("time: ts", "time: ts\n    order: sq", "line 6: streams.s1.order", "unknown column 'sq'"),
    ("time: ts", "time: ts\n    order: [ts, sq]", "streams.s1.order[1]", "unknown column 'sq'"),
    ("time: ts", "time: ts\n    order: [ts, TS]", "streams.s1.order", "twice"),
    ("time: ts", "time: ts\n    lateness: 10", "line 6: streams.s1.lateness", "no unit; write a number and a unit, for example '10 seconds'"),
    ("time: ts", "time: ts\n    lateness: 10 parsecs", "streams.s1.lateness", "'parsecs' is not a unit of time"),
    ("time: ts", "time: ts\n    lateness: -1 s", "streams.s1.lateness", "negative"),
    ("time: ts", "time: ts\n    lateness: soon", "streams.s1.lateness", "not a duration"),
    ("time: ts", "time: ts\n    lateness: [1 s]", "streams.s1.lateness", "expected a single value, found a list"),
    ("time: ts", "time: ts\n    lateness:", "streams.s1.lateness", "not a duration"),
    ("time: ts", "time: ts\n    idle: 0 s", "streams.s1.idle", "longer than zero"),
    ("dest: string", "dest: strng", "line 6: streams.s1.schema.dest", "Spark has no type 'strng'; did you mean 'string'?"),
    ("dest: string", "dest: text", "streams.s1.schema.dest", "did you mean 'string'?"),
    ("dest: string", "dest: map<int, string>", "streams.s1.schema.dest", "a type that has a comma needs quotes"),
    ("dest: string", "dest: 5", "streams.s1.schema.dest", "expected text, found a number"),
    ("dest: string", "TS: string", "streams.s1.schema.TS", "differ only in case"),
    ("dest: string", "ts: string", "streams.s1.schema.ts", "is here twice"),
    ("{ts: timestamp, dest: string, size: int}", "{}", "streams.s1.schema", "at least its time column"),
    ("{ts: timestamp, dest: string, size: int}", "[ts]", "streams.s1.schema", "expected a mapping (key: value), found a list"),
    ("format: parquet, ", "", "line 7: streams.s1.source", "the key 'format' is missing"),
    ("format: parquet", "format: ''", "streams.s1.source.format", "expected text"),
    ("path: s1", "path: ", "streams.s1.source.options.path", "expected text, found nothing"),
    ("path: s1", "path: []", "streams.s1.source.options.path", "empty"),
    ("path: s1", "path: [a, s3a://b]", "streams.s1.source.options.path", "a list holds plain paths"),
    ("path: s1", "path: a, PATH: b", "streams.s1.source.options.PATH", "twice"),
    ("path: s1", "x: [1]", "streams.s1.source.options.x", "expected a single value, found a list"),
    ("  s1:", "  s-1:", "line 3: streams.s-1", "can't be the name of a stream"),
    ("  s1:", "  1s:", "streams.1s", "can't be the name of a stream"),
    ("n2: {}", "n 2: {}", "line 1: sites.n 2", "can't be the name of a site"),
    ("n2: {}", "n2: {cpu: 1}", "sites.n2.cpu", "unknown key 'cpu'"),
    ("n2: {}", "n2: {speed: 0}", "sites.n2.speed", "must be greater than zero"),
    ("n2: {}", "n2: 5", "sites.n2", "expected a mapping"),
    ("n2: {}", "n1: {}", "sites.n1", "is here twice; the first is on line 1"),
    ("n2: {}", "~: {}", "line 1: sites", "a key must be a name"),
    ("n2: {}", "[n2]: {}", "line 1", "key"),
    ("sites: {n1: {}, n2: {}}", "sites: {}", "line 1: sites", "at least one site"),
    ("sites: {n1: {}, n2: {}}", "", "line 2", "the key 'sites' is missing"),
    ("sites:", "site:", "line 1: site", "unknown key 'site'; did you mean 'sites'?"),
    ("n2: {}", "n2: {", "line", "not valid YAML"),
    ("    site", "\tsite", "line 4", "not valid YAML"),
    ("format: parquet", "format: !!python/name:os.system x", "streams.s1.source.format", "has no meaning here"),
]  # fmt: skip

ADDED = [  # what is added to SMALL, where the error is, what it says
    ("    stats: {rate: -1}", "line 8: streams.s1.stats.rate", "-1 must be zero or more"),
    ("    stats: {rate: .nan}", "streams.s1.stats.rate", "not finite"),
    ("    stats: {rate: .inf}", "streams.s1.stats.rate", "not finite"),
    ("    stats: {rate: 1e999}", "streams.s1.stats.rate", "not finite"),
    ("    stats: {rate: " + "9" * 400 + "}", "streams.s1.stats.rate", "not finite"),
    ("    stats: {rate: " + "9" * 5000 + "}", "streams.s1.stats.rate", "not a number that can be read"),
    ("    stats: {rate: fast}", "streams.s1.stats.rate", "expected a number, found text 'fast'"),
    ("    stats: {rate: true}", "streams.s1.stats.rate", "expected a number, found true or false"),
    ("    stats: {bytes: }", "streams.s1.stats.bytes", "expected a number, found nothing"),
    ("    stats: {widths: {dst: 1}}", "streams.s1.stats.widths.dst", "unknown column 'dst'; did you mean 'dest'?"),
    ("    stats: {distinct: {dest: 0}}", "streams.s1.stats.distinct.dest", "greater than zero"),
    ("    stats: {distinct: {dest: 1, DEST: 1}}", "streams.s1.stats.distinct.DEST", "twice"),
    ("    stats: {rates: {dst: {a: 1}}}", "streams.s1.stats.rates.dst", "unknown column"),
    ("    stats: {rates: {dest: {a: -1}}}", "streams.s1.stats.rates.dest.a", "zero or more"),
    ("    stats: {rates: {dest: 1}}", "streams.s1.stats.rates.dest", "expected a mapping"),
    ("    stats: {rates: {dest: {~: 1}}}", "streams.s1.stats.rates.dest", "a key must be a name"),
    ("    stats: {rates: {size: {a: 1}}}", "streams.s1.stats.rates.size", "'a' is not a value of a column of type int"),
    ("    stats: {rats: 1}", "streams.s1.stats.rats", "did you mean 'rate"),
    ("  S1: {}", "line 8: streams.S1", "differ only in case"),
    ("links: {pairs: [{between: [n1, n3]}]}", "line 8: links.pairs[0].between[1]", "unknown site 'n3'"),
    ("links: {pairs: [{between: [n1, n1]}]}", "links.pairs[0]", "to itself"),
    ("links: {pairs: [{between: [n1]}]}", "links.pairs[0].between", "between two sites"),
    ("links: {pairs: [{between: n1}]}", "links.pairs[0].between", "expected a list"),
    ("links: {pairs: [{from: n1}]}", "links.pairs[0]", "a link needs two sites"),
    ("links: {pairs: [{between: [n1, n2], to: n1}]}", "links.pairs[0]", "either between"),
    ("links: {pairs: [{between: [n1, n2]}, {between: [n2, n1]}]}", "links.pairs[1]", "twice"),
    ("links: {pairs: [{from: n1, to: n2}, {from: n1, to: n2}]}", "links.pairs[1]", "twice"),
    ("links: {default: {mbps: 0}}", "links.default.mbps", "greater than zero"),
    ("links: {default: {latency_ms: -1}}", "links.default.latency_ms", "zero or more"),
    ("links: {default: {latency: 1}}", "links.default.latency", "did you mean 'latency_ms'?"),
    ("joins: [{left: s1.dest, right: s2.dest, selectivity: 1}]", "joins[0].right", "unknown stream 's2'"),
    ("joins: [{left: s1.dst, right: s1.dest, selectivity: 1}]", "joins[0].left", "unknown column 'dst'"),
    ("joins: [{left: s1, right: s1.dest, selectivity: 1}]", "joins[0].left", "write stream.column"),
    ("joins: [{left: s1.ts, right: s1.dest, selectivity: 1.5}]", "joins[0].selectivity", "between 0 and 1"),
    ("joins: [{left: s1.ts, right: s1.dest, selectivity: -0.1}]", "joins[0].selectivity", "zero or more"),
    ("joins: [{left: s1.ts, right: s1.dest}]", "joins[0]", "the key 'selectivity' is missing"),
    ("joins: {}", "joins", "expected a list, found a mapping"),
    ("costs: {probe: 1}", "costs.probe", "did you mean 'probe_s'?"),
    ("costs: {interval_s: 0}", "costs.interval_s", "greater than zero"),
    ("tables: {s1: {}}", "line 8: tables.s1", "'s1' is a stream and a table"),
    ("tables: {t: {site: n1}}", "tables.t", "the key 'schema' is missing"),
    ("tables: {t: {site: n1, time: ts}}", "tables.t.time", "unknown key 'time'"),
    ("tables: {t: {site: n1, schema: {k: int}, source: {format: text, value: json}}}", "tables.t.source", "not encoded"),
    ("tables: {t: {site: n1, schema: {k: int}, source: {format: csv}, refresh: 0 seconds}}", "tables.t.refresh", "longer than zero"),
    ("tables: {t: {site: n1, schema: {k: int}, source: {format: csv}, stats: {rate: 1}}}", "tables.t.stats.rate", "unknown key"),
    ("<<: {}", "line 8", "unknown key '<<'"),
    ("---\nsites: {}", "line 8", "not valid YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "says"), REPLACED)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, place: str, says: str
) -> None:
    assert old in SMALL
    message = error(tmp_path, SMALL.replace(old, new, 1))
    assert place in message
    assert says in message


@pytest.mark.parametrize(("added", "place", "says"), ADDED)
def test_what_is_wrong_in_optional_parts_is_named_too(
    tmp_path: Path, added: str, place: str, says: str
) -> None:
    message = error(tmp_path, SMALL + added + "\n")
    assert place in message
    assert says in message


def test_a_place_is_file_line_and_path(tmp_path: Path) -> None:
    message = error(tmp_path, SMALL.replace("site: n1", "site: n3"))
    assert message.startswith(f"{tmp_path / 'catalog.yaml'}, line 4: streams.s1.site: unknown site")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the catalog is empty"),
        (b"# nothing\n", "the catalog is empty"),
        (b"---\n", "the catalog is empty"),
        (b"- a\n", "expected a mapping"),
        (b"just text", "expected a mapping"),
        (b"\xff\xfe\x00", "not UTF-8 text at byte 0"),
        ("sites: ü".encode("latin-1"), "not UTF-8 text at byte 7"),
        (b"a: \x00", "not valid YAML"),
        (b"[" * 1000, "nested too deeply"),
        (b"&a [*a]", "expected a mapping"),
        (b"sites: &a {x: *a}\nstreams: {}", "sites.x.x"),
        (b"sites: *nowhere", "not valid YAML"),
    ],
)
def test_files_that_are_no_catalog(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in error(tmp_path, content)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert catalog(tmp_path, b"\xef\xbb\xbf" + SMALL.encode()).streams


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="is a directory; name the YAML file"):
        load(tmp_path)
    with pytest.raises(UserError, match="can't be read"):
        load("a\x00b")


def test_aliases_that_multiply_are_harmless(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    assert "unknown key 'a0'" in error(tmp_path, bomb)
    rates = "    stats: {rates: {dest: &d {a: 1}, ts: *d}}\n"
    assert catalog(tmp_path, SMALL + rates).streams["s1"].stats.rates["ts"] == {"a": 1}


def test_a_catalog_made_by_code_checks_itself(tmp_path: Path) -> None:
    read = catalog(tmp_path, SMALL)
    stream = read.streams["s1"]
    with pytest.raises(ValueError, match="no site n9"):
        Catalog(path="", sites=read.sites, streams={"s1": stream.model_copy(update={"site": "n9"})})
    with pytest.raises(ValueError, match="has no column nope"):
        stream.model_validate({**stream.model_dump(), "time": "nope"})
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        Link(latency_ms=-1)


@pytest.mark.filterwarnings("error")
def test_an_anchor_may_be_set_again(tmp_path: Path) -> None:
    assert catalog(
        tmp_path, SMALL.replace("{n1: {}, n2: {}}", "{n1: &a {}, n2: &a {}, n3: *a}")
    ).sites.keys() == {
        "n1",
        "n2",
        "n3",
    }


def test_a_catalog_that_is_too_large_is_refused_at_once(tmp_path):
    columns = ", ".join(f"c{i}: long" for i in range(100_000))
    (tmp_path / "c.yaml").write_text(SMALL.replace("ts: timestamp", f"ts: timestamp, {columns}", 1))
    with pytest.raises(
        UserError, match=r"the catalog has 1,[0-9,]+ characters, and at most 500,000 are read"
    ):
        load(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "rate: 1e308",
        "bytes: 1e308",
        "widths: {dest: 1e16}",
        "distinct: {dest: 1e-300}",
        "rates: {dest: {a: 1e300}}",
    ],
)
def test_numbers_that_no_cost_can_be_computed_with_are_refused(tmp_path, text):
    with pytest.raises(
        UserError, match=r"line 7: streams\.s1\.stats.*(must be between 0 and 1e\+15|is too small)"
    ):
        catalog(tmp_path, SMALL.replace("    source", f"    stats: {{{text}}}\n    source"))


def test_the_largest_numbers_can_be_planned_with(tmp_path):
    extreme = "stats: {rate: 1.0e+15, bytes: 1.0e+15, distinct: {dest: 1.0e-15}}"
    head, one = SMALL.split("  s1:\n")
    text = (
        head
        + "".join(f"  s{n}:\n{one.replace('n1', f'n{n}')}    {extreme}\n" for n in (1, 2))
        + "links: {default: {latency_ms: 1.0e+15, mbps: 1.0e-15, usd_per_gb: 1.0e+15}}\n"
    )
    known = catalog(tmp_path, text)
    sql = "SELECT s1.size FROM s1 [RANGE 1000000 DAYS], s2 [RANGE 1000000 DAYS] WHERE s1.dest = s2.dest"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for objective in Objective:
            for planner in PLANNERS:
                if planner.name != "local":
                    make_plan(
                        [parse(sql, name="q", schemas=known.schemas)],
                        known,
                        PlanOptions(planner.name, objective),
                    )


def test_text_of_a_limited_length_is_a_string(tmp_path):
    """Spark refuses these types in the schema of a source."""
    known = catalog(
        tmp_path, SMALL.replace("dest: string", "dest: char(3), tags: 'array<varchar(9)>', n: 'DEC(4)'")
    )
    assert dict(known.streams["s1"].columns) == {
        "ts": "timestamp", "dest": "string", "tags": "array<string>", "n": "DEC(4)", "size": "int",
    }  # fmt: skip


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    table = "{site: n1, schema: {k: int}, source: {format: csv, options: {path: t}}, stats: {rows: 7, distinct: {K: 7}}}"
    path.write_text(SMALL + f"tables: {{t: {table}}}\n")
    known = load(path)
    one = known.streams["t"]
    assert known.tables == {"t"}
    assert set(known.times) == {"s1"}
    assert (one.stats.rows, one.stats.rate, one.stats.distinct, dict(one.columns)) == (
        7,
        0,
        {"k": 7},
        {"k": "int"},
    )
    assert one.source.options["path"] == str(tmp_path / "t")

"""Statistics written into catalog files: nothing else of the file changes."""

import difflib
import stat

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from thalweg.catalog import JoinSelectivity, Stats, load
from thalweg.catalog.edit import updated, write
from thalweg.errors import UserError

STREAM = "site: n1, time: ts, schema: {ts: timestamp, k: long, dest: string}, source: {format: parquet}"
NEW = Stats(
    rate=12.5,
    bytes=24,
    widths={"ts": 8, "k": 8, "dest": 8},
    distinct={"dest": 3, "k": 7},
    rates={"dest": {"a": 4, "no": 2, "10.1.0.1": 0.5}},
)
JOIN = JoinSelectivity(left=("s1", "dest"), right=("s2", "dest"), selectivity=1e-7)

LINES = """\
# The sites.
sites: {n1: {}}   # one

streams:
  s1:   # the first
    site: n1
    time: ts
    schema: { ts: timestamp,   k: long, dest: string }
    # where it comes from
    source:
      format: parquet
      options:
        path: 'a'   # quoted
%s
  # about the second
  s2:
    %s
    stats:
      rate: 7   # known well

# the end
"""
LINES %= (
    "",
    STREAM.replace(", time", "\n    time")
    .replace(", schema", "\n    schema")
    .replace(", source", "\n    source"),
)


@pytest.fixture
def written(tmp_path):
    """Writes statistics into a file with a text; gives the lines taken out, those put in, and the text."""

    def call(text, stats=None, joins=(JOIN,)):
        path = tmp_path / "catalog.yaml"
        path.write_bytes(text.encode())
        before = load(path)
        stats = {"s1": NEW} if stats is None else stats
        assert write(before, stats, joins)
        after = path.read_bytes().decode()
        assert load(path) == updated(before, stats, joins)
        assert not write(load(path), stats, joins)
        assert path.read_bytes().decode() == after
        found = list(difflib.ndiff(text.splitlines(), after.splitlines()))
        return (
            [line[2:] for line in found if line[0] == "-"],
            [line[2:] for line in found if line[0] == "+"],
            after,
        )

    return call


def test_new_statistics_are_added_where_they_belong(written):
    out, new, text = written(LINES)
    assert out == []
    assert new == [
        "    stats:",
        "      rate: 12.5",
        "      bytes: 24",
        "      widths: {ts: 8, k: 8, dest: 8}",
        "      distinct: {dest: 3, k: 7}",
        "      rates:",
        '        dest: {a: 4, "no": 2, 10.1.0.1: 0.5}',
        "joins:",
        "  - {left: s1.dest, right: s2.dest, selectivity: 1.0e-07}",
    ]
    assert text.index("# quoted") < text.index("rate: 12.5") < text.index("# about the second")


OLD = """\
sites: {n1: {}}
streams:
  s1:
    site: n1
    time: ts
    schema: {ts: timestamp, k: long, dest: string}
    source: {format: parquet}
    stats:
      # measured on Monday
      rate: 3      # a guess
      widths: {DEST: 5}   # bytes
      distinct: {ts: 100, dest: 5}
      rates:
        ts: {2026: 1}
        dest:
          # the largest
          a: 1   # of a
          z: 2   # gone
          "no": 2
        k: {1: 1, 2: 2}
  s2: {%s}
joins:   # all of them
  - {left: s2.DEST, right: s1.dest, selectivity: 0.5}   # the other way round
  - left: s1.k
    right: s2.k
    selectivity: 0.25
"""
OLD %= STREAM


def test_known_statistics_are_replaced_and_others_stay(written):
    other = JoinSelectivity(left=("s1", "k"), right=("s1", "k"), selectivity=0.125)
    out, new, text = written(OLD, joins=[JOIN, other])
    assert out == [
        "      rate: 3      # a guess",
        "      widths: {DEST: 5}   # bytes",
        "      distinct: {ts: 100, dest: 5}",
        "          a: 1   # of a",
        "          z: 2   # gone",
        "        k: {1: 1, 2: 2}",
        "  - {left: s2.DEST, right: s1.dest, selectivity: 0.5}   # the other way round",
    ]
    assert new == [
        "      rate: 12.5      # a guess",
        "      widths: {DEST: 8, ts: 8, k: 8}   # bytes",
        "      distinct: {ts: 100, dest: 3, k: 7}",
        "          a: 4   # of a",
        "          10.1.0.1: 0.5",
        "      bytes: 24",
        "  - {left: s2.DEST, right: s1.dest, selectivity: 1.0e-07}   # the other way round",
        "  - {left: s1.k, right: s1.k, selectivity: 0.125}",
    ]
    assert "ts: {2026: 1}" in text


@pytest.mark.parametrize(
    "text",
    [
        "{sites: {n1: {}}, streams: {s1: {STREAM}, s2: {STREAM}}}",
        "{sites: {n1: {}}, streams: {s1: {STREAM, stats: {}}, s2: {STREAM}}, joins: []}\n",
        "---\nsites: {n1: {}}\nstreams: {s1: {STREAM, stats: {rate: 1,\n"
        " rates: {dest: {x: 1, y: 2}, k: {1: 1}}}},\n"
        " s2: {STREAM}}\njoins:\n- {left: s1.k, right: s2.k, selectivity: 1}\n...\n",
        "{sites: {n1: {}}, streams: {s1: {STREAM, stats: {rates: {k: {1: 1}}}}, s2: {STREAM}}}",
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        LINES.removesuffix("\n\n# the end\n"),
        "joins: [{left: s1.k, right: s2.k, selectivity: 1}]\n" + LINES,
    ],
    ids=range(8),
)
def test_any_way_of_writing_yaml(written, text):
    text = text.replace("STREAM", STREAM)
    _, _, after = written(text)
    assert ("\r\n" in text) == ("\r\n" in after)
    assert text.startswith("\ufeff") == after.startswith("\ufeff")
    assert "\r" not in after.replace("\r\n", "")


def test_values_without_names_lose_their_rates(written):
    even = Stats(rate=5, distinct={"dest": 900, "k": 900})
    _, _, text = written(OLD, {"s1": even}, ())
    assert "ts: {2026: 1}" in text
    assert "dest:\n" not in text
    only = OLD.replace("        ts: {2026: 1}\n", "")
    _, _, text = written(only, {"s1": even}, ())
    assert "rates" not in text


VALUES = st.one_of(
    st.text(min_size=1, max_size=10), st.sampled_from(["~", "null", "1e3", "0x1", "- a", "#", "*a", "7"])
)


@settings(
    max_examples=50,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.builds(
            Stats,
            rate=st.one_of(st.none(), st.floats(0, 1e9)),
            widths=st.dictionaries(st.sampled_from(["dest", "k"]), st.floats(0, 1e6)),
            distinct=st.just({"dest": 20.0}),
            rates=st.dictionaries(
                st.just("dest"), st.dictionaries(VALUES, st.floats(1e-9, 1e9), min_size=1, max_size=12)
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([LINES, OLD]),
)
def test_what_is_written_is_read_back(tmp_path, many, text):
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    for stats in many:
        before = load(path)
        write(before, {"s1": stats, "s2": stats})
        assert load(path) == updated(before, {"s1": stats, "s2": stats})


def test_values_of_integers(written):
    new = Stats(distinct={"k": 3}, rates={"k": {-1: 1, 2: 5, 30: 0.5}})
    written(OLD, {"s1": new}, ())


def test_an_alias_is_refused_and_the_file_stays(tmp_path):
    path = tmp_path / "catalog.yaml"
    text = "sites: {n1: {}}\nstreams: {s1: {STREAM, stats: &x {rate: 5}}, s2: {STREAM, stats: *x}}\n"
    text = text.replace("STREAM", STREAM)
    path.write_text(text)
    with pytest.raises(UserError, match=r"alias.*write the value out"):
        write(load(path), {"s2": NEW})
    assert path.read_text() == text


def test_the_file_keeps_its_mode_and_its_link(tmp_path):
    path, link = tmp_path / "real.yaml", tmp_path / "catalog.yaml"
    path.write_text(LINES)
    path.chmod(0o640)
    link.symlink_to(path)
    assert write(load(link), {"s1": NEW})
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert load(path).streams["s1"].stats == NEW


def test_a_file_that_has_changed_meanwhile_stays(tmp_path):
    path = tmp_path / "catalog.yaml"
    path.write_text(OLD)
    before = load(path)
    changed = OLD.replace("rate: 3 ", "rate: 3 ").replace(
        "time: ts\n", "time: ts\n    lateness: 1 second\n", 1
    )
    path.write_text(changed)
    with pytest.raises(UserError, match="can't be written into this file"):
        write(before, {"s1": NEW})
    assert path.read_text() == changed
    assert list(tmp_path.iterdir()) == [path]

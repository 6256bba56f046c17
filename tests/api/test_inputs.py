"""Queries and catalogs as files, texts and objects; wrong ones are said in the words of the commands."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

import thalweg
from tests.cli.conftest import QUERY
from thalweg.api.inputs import read_catalog, read_queries, read_query
from thalweg.catalog import load
from thalweg.cli.main import invoke
from thalweg.errors import UserError


def names(given):
    return [q.name for q in read_queries(given, load("catalog.yaml"))]


def test_a_catalog_is_a_file_a_text_a_dict_or_one_that_was_read(folder):
    by_path = read_catalog("catalog.yaml")
    text = Path("catalog.yaml").read_text()
    for given in (Path("catalog.yaml"), text, YAML(typ="safe", pure=True).load(text), by_path):
        found = read_catalog(given)
        assert found.model_copy(update={"path": by_path.path}) == by_path  # also where its sources are


def test_a_dict_may_hold_paths_and_tuples(folder):
    told = YAML(typ="safe", pure=True).load(Path("catalog.yaml").read_text())
    told["streams"]["s1"]["source"]["options"]["path"] = folder / "data" / "s1"
    told["joins"] = ({"left": "s1.k", "right": "s2.k", "selectivity": 0.5},)
    assert read_catalog(told).joins[0].selectivity == 0.5


def test_queries_are_files_texts_or_objects_one_or_several_with_names(folder):
    Path("r.sql").write_text(QUERY)
    assert names("q.sql") == names(Path("q.sql")) == names([Path("q.sql")]) == ["q"]
    assert names(QUERY) == names(f"-- two streams\n /* joined */ {QUERY}") == ["query"]
    assert names(["r.sql", Path("q.sql")]) == ["r", "q"]
    assert names({"one": QUERY, "two": "q.sql"}) == ["one", "two"]
    parsed = read_query("q.sql", load("catalog.yaml"))
    assert names(parsed) == ["q"]
    assert names({"other": parsed}) == ["other"]


@pytest.mark.parametrize(
    ("queries", "catalog", "message"),
    [
        ("none.sql", "catalog.yaml", "none.sql: can't read the query: No such file or directory"),
        ("q.sql", "none.yaml", "there is no file 'none.yaml'"),
        ("q.sql", "sites: {n1: {}}\nstreams: {}", "the catalog, line 2: streams: a catalog needs at least"),
        ("q.sql", {"sites": {"n1": {}}}, "the key 'streams' is missing"),
        ("q.sql", {"sites": object()}, "the catalog holds what YAML can't"),
        ("q.sql", 3, "a catalog can't be of the type int; give its file, its text, or a dict"),
        (3, "catalog.yaml", "a query can't be of the type int; give its file or its text"),
        ([], "catalog.yaml", "there is no query; give one or more"),
        ("SELECT 1", "catalog.yaml", "the query, line 1, column 9: FROM is missing"),
        ({"a": "SELECT 1"}, "catalog.yaml", "query a, line 1, column 9: FROM is missing"),
        ({"a-b": QUERY}, "catalog.yaml", "query a-b: 'a-b' is not a valid query name"),
        (
            [QUERY, QUERY],
            "catalog.yaml",
            "two queries are named 'query': the query and the query; give a dict",
        ),
        (["q.sql", "q.sql"], "catalog.yaml", "two queries are named 'q': q.sql and q.sql"),
    ],
)
def test_wrong_input_is_one_line(folder, queries, catalog, message):
    for function in (thalweg.plan, thalweg.compare, thalweg.stats):
        with pytest.raises(thalweg.UserError) as refused:
            function(queries, catalog)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)
    with pytest.raises(thalweg.UserError) as refused:
        thalweg.run(queries, catalog, "out")
    assert message in str(refused.value)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (("plan", "--planner", "best"), lambda: thalweg.plan("q.sql", "catalog.yaml", planner="best")),
        (("plan", "--objective", "fame"), lambda: thalweg.plan("q.sql", "catalog.yaml", objective="fame")),
        (("plan", "--deliver-to", "n3"), lambda: thalweg.plan("q.sql", "catalog.yaml", deliver_to="n3")),
        (("plan", "--set", "width=3"), lambda: thalweg.plan("q.sql", "catalog.yaml", settings={"width": 3})),
        (("compare", "--set", "a=b"), lambda: thalweg.compare("q.sql", "catalog.yaml", settings={"a": "b"})),
        (("verify", "--out", "none"), lambda: thalweg.verify("q.sql", "catalog.yaml", "none")),
        (("run", "--out", "q.sql"), lambda: thalweg.run("q.sql", "catalog.yaml", "q.sql")),
        (
            ("run", "--out", "out", "--memory-budget", "much"),
            lambda: thalweg.run("q.sql", "catalog.yaml", "out", memory_budget="much"),
        ),
        (
            ("run", "--out", "out", "--plan", "none.json"),
            lambda: thalweg.run("q.sql", "catalog.yaml", "out", plan="none.json"),
        ),
    ],
)
def test_a_function_says_what_its_command_says(folder, capsys, command, function):
    name, *options = command
    assert invoke([name, "q.sql", "--catalog", "catalog.yaml", *options]) == 2
    with pytest.raises(UserError) as refused:
        function()
    assert capsys.readouterr().err == f"thalweg: {refused.value}\n"

"""The dashboard and the alert rules name metrics that there are, with labels that these have."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from tests.page.growing import Growing
from thalweg.page.prometheus import Metrics
from thalweg.page.reading import RunFolder

FOLDER = Path(__file__).parents[2] / "examples/monitoring"


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The labels of each metric of a run over links with a limit."""
    folder = tmp_path_factory.mktemp("run")
    catalog = folder / "routers.yaml"
    text = (Path(__file__).parents[2] / "docs/examples/routers.yaml").read_text()
    catalog.write_text(f"{text}\nlinks: {{default: {{latency_ms: 10, mbps: 1}}}}\n")
    run = Growing(folder / "out", catalog)
    run.back(20)
    metrics = Metrics(RunFolder(run.out).read(), run.at).text().decode()
    return {
        s.name: set(s.labels) for family in text_string_to_metric_families(metrics) for s in family.samples
    }


def expressions():
    board = json.loads((FOLDER / "grafana.json").read_text())
    yield from (t["expr"] for p in board["panels"] for t in p["targets"])
    yield from (a["expr"] for a in board["annotations"]["list"])
    yield from (v["definition"].partition("(")[2] for v in board["templating"]["list"] if "definition" in v)
    rules = YAML(typ="safe").load(FOLDER / "alerts.yaml")
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])


def test_every_metric_is_there(known):
    named = {name for e in expressions() for name in re.findall(r"thalweg_\w+", e)}
    assert len(named) > 15
    assert named <= known.keys()


def test_every_label_is_there(known):
    for expression in expressions():
        names = re.findall(r"thalweg_\w+", expression)
        labels = set.union(*(known[n] for n in names)) | {"instance"}
        grouped = {
            g.strip() for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for g in by.split(",")
        }
        matched = {
            m for braces in re.findall(r"{([^}]*)}", expression) for m in re.findall(r"(\w+)=", braces)
        }
        assert grouped | matched <= labels, expression


def test_panels_lie_beside_each_other_and_have_units():
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    places = [p["gridPos"] for p in panels]
    cells = [
        (x, y) for g in places for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    assert all(p["fieldConfig"]["defaults"]["unit"] for p in panels)
    assert len({p["id"] for p in panels}) == len(panels)

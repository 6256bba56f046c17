"""The experiments past the papers."""

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.reproduce.test_papers import outcome_of
from thalweg.cli.main import app
from thalweg.errors import UserError
from thalweg.reproduce import past_atlas, past_parts
from thalweg.reproduce.files import write
from thalweg.reproduce.past_growth import HIERARCHY, network_of, plan, session_of
from thalweg.reproduce.table import EXPERIMENTS

SMALL = 0.01


def silent(line):
    pass


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    """Made-up round-trip times of both hours: sites in a square."""
    rng = np.random.default_rng(3)
    place = rng.uniform(0, 100, (12, 2))
    for hour, name in enumerate(past_atlas.FILES):
        times = np.linalg.norm(place[:, None] - place, axis=2) * (1 + hour / 10)
        lines = [",".join(map(str, range(12))), *(",".join(f"{ms:.0f}" for ms in row) for row in times)]
        (tmp_path / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv(past_atlas.DATA, str(tmp_path))
    return tmp_path


def check(name, folder):
    outcome = EXPERIMENTS[name].run(SMALL, silent)
    assert outcome.name == name
    assert outcome.claims and outcome.panels
    assert {len(row) for row in outcome.rows} == {len(outcome.header)}
    assert all(claim.measured for claim in outcome.claims)
    json.dumps(outcome.to_json(), allow_nan=False)
    table, picture = write(outcome, folder / "out")
    assert len(table.read_text().splitlines()) > 1
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("name", ["past-sites", "past-queries", "past-optimum", "past-parts", "past-atlas"])
def test_an_experiment_at_a_small_size(name, tmp_path, atlas):
    check(name, tmp_path)


@pytest.mark.long
def test_bloom_filters_at_a_small_size(tmp_path):
    check("past-bloom", tmp_path)


def test_a_plan_for_each_value_is_a_bound_for_all_parts():
    outcome = EXPERIMENTS["past-parts"].run(SMALL, silent)
    costs = {(case, plan, x): cost for case, plan, x, cost, *_ in outcome.rows}
    for (case, name, x), cost in costs.items():
        assert cost >= costs[case, past_parts.BY_VALUE, x] * (1 - 1e-9), (case, name, x)


def test_no_tree_is_cheaper_than_the_optimum_and_messages_are_counted():
    one = network_of(60, 0, 1)
    made = {name: plan(session_of(one, name, 0), name, 0, one) for name in ("optimal", "simple", *HIERARCHY)}
    assert all(p.cost >= made["optimal"].cost * (1 - 1e-9) for p in made.values())
    assert all(p.messages >= 1 for p in made.values())


def test_without_its_data_an_experiment_is_left_out_of_all(tmp_path, monkeypatch):
    monkeypatch.delenv(past_atlas.DATA, raising=False)
    with pytest.raises(UserError, match="THALWEG_ATLAS"):
        EXPERIMENTS["past-atlas"].run(SMALL, silent)
    ran = []

    def run(self, scale, tell):
        ran.append(self.name)
        return outcome_of(self.name)

    monkeypatch.setattr("thalweg.reproduce.table.Experiment.run", run)
    done = CliRunner().invoke(
        app, ["reproduce", "all", "--paper", "past", "--scale", "0.02", "--out", str(tmp_path), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert ran == [name for name in EXPERIMENTS if name.startswith("past-") and name != "past-atlas"]
    assert "past-atlas: left out, it needs data that THALWEG_ATLAS names" in done.stderr


def test_files_of_two_hours_must_have_the_same_sites(atlas):
    path = atlas / past_atlas.FILES[1]
    path.write_bytes(gzip.compress(b"1,2\n0,5\n5,0\n"))
    with pytest.raises(UserError, match="different sites"):
        past_atlas.read()

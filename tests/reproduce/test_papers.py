"""Every experiment at a small size; what it finds at its own size is in docs/results.md."""

import json

import pytest
from typer.testing import CliRunner

from thalweg.cli.main import app
from thalweg.cost.operations import USUAL
from thalweg.errors import UserError
from thalweg.reproduce import mjoin_table3
from thalweg.reproduce.files import write
from thalweg.reproduce.kept import keep, kept
from thalweg.reproduce.outcome import Bars, Claim, Outcome
from thalweg.reproduce.page import page, sections, write_page
from thalweg.reproduce.samples import Samples
from thalweg.reproduce.table import EXPERIMENTS, PAPERS, named

SMALL = 0.02


def silent(line):
    pass


@pytest.fixture(autouse=True)
def usual_prices(monkeypatch):
    monkeypatch.setattr(mjoin_table3, "prices", lambda: USUAL)


@pytest.mark.parametrize(
    "name",
    [n for n, e in EXPERIMENTS.items() if e.paper in ("pmjoin", "integrated") or n == "mjoin-table3"],
)
def test_an_experiment_at_a_small_size(name, tmp_path):
    outcome = EXPERIMENTS[name].run(SMALL, silent)
    assert outcome.name == name
    assert outcome.claims and outcome.panels
    assert {len(row) for row in outcome.rows} == {len(outcome.header)}
    assert all(claim.measured for claim in outcome.claims)
    table, picture = write(outcome, tmp_path)
    assert len(table.read_text().splitlines()) > 1
    assert picture.stat().st_size > 1000


def test_pmjoins_example_gives_the_papers_numbers():
    outcome = EXPERIMENTS["pmjoin-table1"].run(1.0, silent)
    assert all(claim.holds for claim in outcome.claims)
    assert [round(row[2], 2) for row in outcome.rows[:3]] == [100.1, 54.03, 0.07]


def test_lemma_1_gives_the_papers_numbers():
    outcome = EXPERIMENTS["integrated-lemma1"].run(1.0, silent)
    assert [claim.holds for claim in outcome.claims] == [True, True, True, True, False]


@pytest.mark.parametrize("name", ["pmjoin-fig6", "pmjoin-fig7", "pmjoin-fig5b"])
def test_no_plan_is_cheaper_than_the_optimum(name):
    outcome = EXPERIMENTS[name].run(0.1, silent)
    costs = {(plan, x): cost for plan, x, cost, *_ in outcome.rows}
    for (plan, x), cost in costs.items():
        assert cost >= costs["Optimal", x] * (1 - 1e-9), (plan, x)


def test_an_optimum_for_each_value_is_a_bound_for_every_cut():
    outcome = EXPERIMENTS["pmjoin-fig8"].run(0.1, silent)
    costs = {(case, plan, x): cost for case, plan, x, cost, *_ in outcome.rows}
    for (case, plan, x), cost in costs.items():
        assert cost >= costs[case, "optimal for each value", x] * (1 - 1e-9), (case, plan, x)


def outcome_of(name, *, holds=(True, False)):
    claims = tuple(Claim(f"claim {i} (criterion: {i})", "1 | 2", h, "a cause") for i, h in enumerate(holds))
    return Outcome(
        name,
        "a title",
        ("a setting",),
        claims,
        ("plan", "cost"),
        (("a", 1.5),),
        (Bars("b", "c", {"a": 1.0}),),
    )


def test_what_has_finished_is_read_back(tmp_path):
    assert kept(tmp_path, "pmjoin-fig6") is None
    made = keep(outcome_of("pmjoin-fig6"), 0.5, 3.0, tmp_path)
    found = kept(tmp_path, "pmjoin-fig6")
    assert found == made
    assert (found.scale, found.holding, len(found.claims)) == (0.5, 1, 2)
    assert found.command == "thalweg reproduce pmjoin-fig6 --scale 0.5"
    (tmp_path / "pmjoin-fig6.png").unlink()
    assert kept(tmp_path, "pmjoin-fig6") is None
    (tmp_path / "pmjoin-fig6.json").write_text("[")
    with pytest.raises(UserError, match="not one that reproduce has written"):
        kept(tmp_path, "pmjoin-fig6")


def test_the_page_has_every_claim_and_counts_those_that_hold(tmp_path):
    some = {n: keep(outcome_of(n), 1.0, 1.0, tmp_path) for n in ("pmjoin-fig6", "integrated-fig2")}
    text = page(some, "results")
    assert "| PMJoin (Zhou, Yan, Yu and Zhou 2006) | 1 of" in text
    assert "| all | 2 | 4 | 2 |" in text
    assert text.count("| claim 1 (criterion: 1) | 1 \\| 2 | no |") == 2
    assert text.count("- claim 1: a cause") == 2
    assert text.count("Not run for this page.") == len(EXPERIMENTS) - 2
    assert "`thalweg reproduce integrated-fig2`, 1 seconds" in text


def test_a_page_keeps_what_it_says_of_experiments_that_were_not_run_again(tmp_path):
    path = tmp_path / "results.md"
    names = ("pmjoin-fig6", "integrated-fig2")
    write_page({n: keep(outcome_of(n), 1.0, 1.0, tmp_path) for n in names}, path)
    before = sections(path.read_text())
    assert set(before) == set(names)
    assert [(one.claims, one.holding) for one in before.values()] == [(2, 1), (2, 1)]
    again = keep(outcome_of(names[0], holds=(True, True, True)), 1.0, 1.0, tmp_path)
    write_page({names[0]: again}, path)
    after = sections(path.read_text())
    assert after[names[1]] == before[names[1]]
    assert (after[names[0]].claims, after[names[0]].holding) == (3, 3)
    assert "| all | 2 | 5 | 4 |" in path.read_text()


def test_a_finished_experiment_is_not_run_again(tmp_path, monkeypatch):
    ran = []

    def run(self, scale, tell):
        ran.append((self.name, scale))
        return outcome_of(self.name)

    monkeypatch.setattr("thalweg.reproduce.table.Experiment.run", run)

    def command(*arguments):
        done = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    pmjoins = [e.name for e in named(None, "pmjoin")]
    found = command("all", "--paper", "pmjoin", "--scale", "0.1")
    assert [e["name"] for e in found["experiments"]] == pmjoins == [name for name, _ in ran]
    command("all", "--paper", "pmjoin", "--scale", "0.1")
    assert len(ran) == len(pmjoins)
    command("pmjoin-fig6", "--scale", "0.2")
    command("pmjoin-fig7", "--scale", "0.1", "--again")
    assert ran[len(pmjoins) :] == [("pmjoin-fig6", 0.2), ("pmjoin-fig7", 0.1)]
    results = tmp_path / "results.md"
    command("pmjoin-fig6", "--scale", "0.2", "--results", str(results))
    assert (tmp_path / "results" / "pmjoin-fig8.png").exists()
    assert f"| all | {len(pmjoins)} |" in results.read_text()


def test_every_experiment_has_a_paper_and_a_module():
    assert {e.paper for e in EXPERIMENTS.values()} <= set(PAPERS)
    with pytest.raises(UserError, match="no paper 'x'"):
        named(None, "x")
    with pytest.raises(UserError, match="no experiment 'x'"):
        named("x")


def test_samples_have_means_and_spread():
    some = Samples()
    for cost in (1.0, 3.0):
        some.add("a", 2, cost)
        some.add("b", 2, 4.0)
    assert (some.mean("a", 2), some.spread("a", 2), some.seeds) == (2.0, 1.0, 2)
    assert some.rows() == [("a", 2, 2.0, 1.0, 2), ("b", 2, 4.0, 0.0, 2)]
    assert some.worst("b", "a") == 2.0
    assert some.curve("a").spread.tolist() == [1.0]

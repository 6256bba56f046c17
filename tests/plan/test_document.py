"""Plans are saved and read back; a plan of other queries, or a damaged one, is refused."""

import json

import pytest

from tests.planners.examples import pmjoin_1, query
from thalweg.errors import UserError
from thalweg.plan.document import Plan
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import make_plan

SQL, KNOWN = pmjoin_1()
QUERIES = [query(SQL, KNOWN, name) for name in ("first", "second")]


@pytest.fixture(scope="module")
def plan():
    return make_plan(QUERIES, KNOWN, PlanOptions("optimal"))


@pytest.fixture
def changed(plan, tmp_path):
    """Loads the plan after a change to its document."""

    def load(change):
        document = json.loads(json.dumps(plan.document()))
        change(document)
        (tmp_path / "plan.json").write_text(json.dumps(document))
        return Plan.load(tmp_path / "plan.json")

    return load


def test_a_saved_plan_reads_back(plan, tmp_path):
    plan.save(tmp_path / "new" / "plan.json")
    read = Plan.load(tmp_path / "new" / "plan.json")
    assert read == plan
    read.check_is_of(QUERIES, "plan.json")
    read.check_fits(KNOWN, "plan.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "not a plan"),
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d.update(colour="red"), "has colour"),
        (lambda d: d.pop("queries"), "lacks queries"),
        (lambda d: d["queries"][0].update(cost=float("nan")), r"queries\[0\]: cost is not a number"),
        (lambda d: d["queries"][0].update(searched="many"), r"queries\[0\]: searched is not a whole"),
        (lambda d: d["queries"][0].pop("deployment"), r"queries\[0\] lacks deployment"),
        (lambda d: d["queries"][0]["deployment"].update(operators=[]), "damaged"),
    ],
)
def test_a_damaged_document_is_refused(changed, change, message):
    with pytest.raises(UserError, match=message):
        changed(change)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\x00"])
def test_what_is_not_json_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan\.json: this is not"):
        Plan.load(tmp_path / "plan.json")


def of_kind(document, nth, kind):
    return next(o for o in document["queries"][nth]["deployment"]["operators"] if o["kind"] == kind)


@pytest.mark.parametrize(
    ("nth", "kind", "changes"),
    [
        (0, "source", {"stream": "s9"}),
        (0, "sink", {"query": "third"}),
        (1, "reuse", {"query": "third"}),
        (1, "reuse", {"query": "second"}),
        (1, "reuse", {"operator": "join9"}),
    ],
)
def test_operators_belong_to_the_queries(changed, nth, kind, changes):
    read = changed(lambda d: of_kind(d, nth, kind).update(changes))
    with pytest.raises(UserError, match="is not one of query"):
        read.check_is_of(QUERIES, "plan.json")

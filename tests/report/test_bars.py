"""Bar charts of comparisons."""

import pytest

from tests.report.test_map import PNG, texts
from thalweg.errors import UserError
from thalweg.planners.compare import Compared, Comparison, NotApplicable
from thalweg.report import bars

COMPARISON = Comparison(
    "bytes",
    "bytes/s between sites",
    ("q",),
    (
        Compared("best", "tree", 2.0, 0.0, 1, 1.0),
        Compared("far", "tree", 500.0, 24900.0, 1, 1.0),
        Compared("free", "linear", 0.0, 0.0, 1, 1.0),
        Compared("not-free", "linear", 3.0, None, 1, 1.0),
        Compared("any-of-them", "any", 2.0, None, 1, 1.0, ("best",)),
    ),
    (NotApplicable("odd", "tree", "too odd"),),
)


def test_bars_name_planners_families_and_costs(tmp_path):
    bars.draw(COMPARISON, tmp_path / "bars.svg")
    said = texts(tmp_path / "bars.svg")
    assert {"tree", "linear", "best", "far", "any-of-them (best)"} <= said
    assert {"2  best", "500  +2.49e+04 %", "0  best", "3"} <= said
    assert "bytes/s between sites (log scale)" in said
    bars.draw(COMPARISON, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(PNG)


def test_bars_of_nothing_and_of_zero(tmp_path):
    for planners in ((), (Compared("free", "tree", 0.0, 0.0, 1, 1.0),)):
        bars.draw(Comparison("bytes", "bytes/s", ("q",), planners, ()), tmp_path / "bars.svg")
        assert "bytes/s" in texts(tmp_path / "bars.svg")


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "plan.json"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=r"plan\.svg or plan\.png"):
        bars.draw(COMPARISON, tmp_path / name)
    assert not list(tmp_path.iterdir())

"""The picture of a change of plan, from the programs of a run."""

from __future__ import annotations

import json

import pytest

from thalweg.errors import UserError
from thalweg.report.move import Move, draw


def program(*names, starting=(), leaving=(), ending=(), change=0, coming=0):
    kinds = {"kept": "keep", "src": "source"}
    operators = [
        {"name": n, "spec": {"type": kinds.get(n.split(" ")[-1], "join"), "stream": "s"}} for n in names
    ]
    said = {"groups": [{"site": "n1", "operators": operators}], "change": change, "coming": coming}
    return {**said, "starting": list(starting), "leaving": list(leaving), "ending": list(ending)}


STEPS = {
    0: program("s src", "s kept", "q.join1"),
    4: program(
        "s src", "s kept", "q.join1", "1:q.join1", starting=["1:q.join1"], leaving=["q.join1"], coming=1
    ),
    7: program("s src", "s kept", "q.join1", "1:q.join1", ending=["q.join1"], change=1),
    9: program("s src", "s kept", "1:q.join1", change=1),
}


@pytest.fixture
def programs(tmp_path):
    for first, one in STEPS.items():
        (tmp_path / f"{first:09}.json").write_text(json.dumps({"format": 4, "program": one}))
    return tmp_path


def test_operators_go_through_their_phases(programs):
    move = Move.read(programs, 1)
    assert (move.first, move.commit, move.last) == (2, 7, 11)
    found = {(b.label, b.operator, b.phase, b.first, b.last) for b in move.bars}
    assert found == {
        ("keeper of s", "s kept", "stays", 2, 11),
        ("q.join1", "q.join1", "old", 2, 7),
        ("q.join1", "q.join1", "ending", 7, 9),
        ("q.join1", "1:q.join1", "starting", 4, 7),
        ("q.join1", "1:q.join1", "new", 7, 11),
    }


def test_the_picture_names_operators_and_phases(programs, tmp_path):
    draw(Move.read(programs, 1), tmp_path / "move.svg")
    svg = (tmp_path / "move.svg").read_text()
    for text in ("n1   keeper of s", "of the new plan", "only what is before", "in both plans"):
        assert text in svg


def test_a_change_that_never_was(programs):
    with pytest.raises(UserError, match="has completed no change 2"):
        Move.read(programs, 2)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"program": {"groups": []}}'])
def test_a_damaged_program_is_named(programs, text):
    path = programs / f"{4:09}.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is damaged") as told:
        Move.read(programs, 1)
    assert told.value.where == str(path)

"""Drafts: gathered by name, checked as files of exchanges are, removed with their batch."""

from __future__ import annotations

import pytest

from tests.exchange.logs import AB, PARCELS, by_all, exchange, one, told
from thalweg.exchange.drafts import Drafts


def test_drafts_are_gathered_and_published(tmp_path):
    drafts = Drafts(tmp_path, "r")
    names = [drafts.write(AB, 4, f"task-{n}", PARCELS[n::2]) for n in range(2)]
    assert by_all(drafts.gather(names)) == by_all(PARCELS)
    assert drafts.gather([]) == []
    log = exchange(tmp_path)
    log.publish(4, drafts.gather(names))
    drafts.clear(4)
    assert by_all(log.read(1)) == by_all(PARCELS)
    assert list((tmp_path / "drafts").iterdir()) == []
    assert "is missing" in told(drafts.gather, names)


def test_who_still_writes_after_being_given_up_does_no_harm(tmp_path):
    drafts = Drafts(tmp_path, "r")
    drafts.write(AB, 4, "task-0", one(9))
    name = drafts.write(AB, 4, "task-0", one(1))
    drafts.write(AB, 4, "task-0", one(8))
    assert drafts.gather([name]) == one(1)
    drafts.clear(4)
    drafts.write(AB, 4, "task-0", one(7))
    kept = drafts.write(AB, 6, "task-0", one(2))
    drafts.clear(5)
    assert [path.name for path in (tmp_path / "drafts").iterdir()] == [kept]
    Drafts(tmp_path / "none", "r").clear(1)


def test_drafts_are_checked_as_files_of_exchanges_are(tmp_path):
    drafts = Drafts(tmp_path, "r")
    name = drafts.write(AB, 4, "t", PARCELS)
    path = tmp_path / "drafts" / name
    assert "belongs to another run" in told(Drafts(tmp_path, "q").gather, [name])
    other = path.with_name(name.replace("a-b", "a-c"))
    other.write_bytes(path.read_bytes())
    assert "belongs to another edge, not to a-c" in told(drafts.gather, [other.name])
    other = path.with_name(name.replace("000004", "000005"))
    other.write_bytes(path.read_bytes())
    assert "is of batch 4" in told(drafts.gather, [other.name])
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged" in told(drafts.gather, [name])


@pytest.mark.parametrize("name", ["", "a/b", "..\n", "../x", "ä", "a b"])
def test_only_names_of_drafts(tmp_path, name):
    drafts = Drafts(tmp_path, "r")
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.write(AB, 1, name, [])
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.gather([name])
    with pytest.raises(ValueError, match="no name of a draft"):
        drafts.gather([f"000000000001.a-b.{name}/.draft"])


def test_a_draft_is_gathered_once(tmp_path):
    drafts = Drafts(tmp_path, "r")
    name = drafts.write(AB, 1, "..", one(1))
    with pytest.raises(ValueError, match="named twice"):
        drafts.gather([name, name])

"""Exchanges that are not as a run has left them: it stops and names the file; put right, it goes on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from thalweg.exchange import parcel_file
from thalweg.exchange.parcel_file import VERSION, Edge, encode, read_parcels

from .places import check_complete, place, unread
from .test_run import files_of, one_message

SLOW = ("--planner", "optimal", "--jitter", 2)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, thalweg):
    """A run that ended in the midst of a batch, with parcels on their way."""
    made = place(tmp_path_factory.mktemp("interrupted"))

    def fail(_, progress):
        if progress.batch == 3:
            raise RuntimeError("the power is cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.cli.progress.Silent.batch", fail)
        code, _, err = thalweg(*made.run(*SLOW), cwd=made.root)
    assert code == 1
    assert "the power is cut" in one_message(err)
    assert json.loads((made.root / "out" / "metrics.json").read_text())["complete"] is False
    return made


def carrying(made, out="out"):
    """A file on its way that has tuples, and is not the newest of its edge unless all are."""
    run = json.loads((made.root / out / "_thalweg" / "job.json").read_text())["run"]
    files = unread(made.root / out)
    for file in files:
        header, parcels = read_parcels(file, run, Edge.named(file.parent.name), int(file.stem))
        if any(p.data for p in parcels):
            return file, header, parcels
    pytest.fail("nothing is on its way")


def flipped(data, header, parcels):
    at = header.length + (len(data) - header.length) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def flipped_in_the_header(data, header, parcels):
    at = header.length - 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def emptied(data, header, parcels):
    return b""


def cut(data, header, parcels):
    return data[:-3]


def of_another_run(data, header, parcels):
    return encode(replace(header.label, run="0" * 32), header.sent_at, parcels)


def of_another_edge(data, header, parcels):
    return encode(replace(header.label, edge=Edge("n4", "n1")), header.sent_at, parcels)


def newer(data, header, parcels):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parcel_file, "VERSION", VERSION + 1)
        return encode(header.label, header.sent_at, parcels)


DAMAGES = {
    flipped: "content does not match its checksum",
    flipped_in_the_header: "header does not match its checksum",
    emptied: "empty",
    cut: "cut short",
    of_another_run: "another run",
    of_another_edge: "belongs to another edge",
    newer: f"version {VERSION + 1}",
}


@pytest.mark.parametrize(
    "damage",
    [d if d is flipped else pytest.param(d, marks=pytest.mark.long) for d in DAMAGES],
    ids=lambda d: d.__name__,
)
def test_a_damaged_file_is_named_and_nothing_is_lost(interrupted, thalweg, damage):
    out = f"out-{damage.__name__}"
    shutil.copytree(interrupted.root / "out", interrupted.root / out)
    file, header, parcels = carrying(interrupted, out)
    kept = file.read_bytes()
    file.write_bytes(damage(kept, header, parcels))
    run = interrupted.run(*SLOW, out=out)
    code, said, err = thalweg(*run, cwd=interrupted.root)
    assert (code, said) == (2, ""), err
    message = one_message(err)
    assert str(file.relative_to(interrupted.root)) in message
    assert DAMAGES[damage] in message
    file.write_bytes(kept)
    code, said, err = thalweg(*run, cwd=interrupted.root)
    assert (code, err) == (0, ""), err
    check_complete(interrupted, json.loads(said), thalweg, out)


@pytest.mark.parametrize("which", [0, pytest.param(-1, marks=pytest.mark.long)], ids=["first", "newest"])
def test_a_missing_file_is_named(interrupted, thalweg, which):
    out = f"out-missing{which}"
    shutil.copytree(interrupted.root / "out", interrupted.root / out)
    edge = carrying(interrupted, out)[0].parent
    file = [f for f in unread(interrupted.root / out) if f.parent == edge][which]
    kept = file.read_bytes()
    file.unlink()
    run = interrupted.run(*SLOW, out=out)
    code, said, err = thalweg(*run, cwd=interrupted.root)
    assert (code, said) == (2, ""), err
    message = one_message(err)
    assert f"{file.relative_to(interrupted.root)}: is missing" in message
    if which == 0:
        return
    file.write_bytes(kept)
    code, said, err = thalweg(*run, cwd=interrupted.root)
    assert (code, err) == (0, ""), err
    check_complete(interrupted, json.loads(said), thalweg, out)


@pytest.mark.parametrize("file", ["plan.json", "_thalweg/programs/000000000.json"])
@pytest.mark.parametrize("keep", [0, 0.5], ids=["emptied", "cut"])
def test_a_damaged_plan_or_program_of_the_run_is_named(interrupted, thalweg, file, keep):
    path = interrupted.root / "out" / file
    kept = path.read_bytes()
    path.write_bytes(kept[: int(keep * len(kept))])
    try:
        code, said, err = thalweg(*interrupted.run(*SLOW), cwd=interrupted.root)
    finally:
        path.write_bytes(kept)
    assert (code, said) == (2, ""), err
    message = one_message(err)
    assert f"out/{file}: " in message
    assert message.endswith("; start the run in a new folder")


@pytest.mark.long
def test_another_plan_does_not_take_over_a_run(interrupted, thalweg):
    out = "out-plan"
    shutil.copytree(interrupted.root / "out", interrupted.root / out)
    before = json.loads((interrupted.root / out / "plan.json").read_text())
    code, said, err = thalweg(*interrupted.run("--planner", "linear-optimal", out=out), cwd=interrupted.root)
    assert code == 0, err
    check_complete(interrupted, json.loads(said), thalweg, out)
    assert json.loads((interrupted.root / out / "plan.json").read_text()) == before


@pytest.mark.long
def test_a_plan_of_the_run_that_leads_outside_is_refused(interrupted, thalweg):
    out = "out-plan-outside"
    shutil.copytree(interrupted.root / "out", interrupted.root / out)
    file = interrupted.root / out / "plan.json"
    file.write_text(json.dumps(outside(json.loads(file.read_text()))))
    code, said, err = thalweg(*interrupted.run(*SLOW, out=out), cwd=interrupted.root)
    assert (code, said) == (2, ""), err
    message = one_message(err)
    assert "plan.json" in message
    assert "../x" in message


def outside(plan):
    """The plan with one site's name replaced by a way out of the folder."""
    return json.loads(json.dumps(plan).replace('"n2"', '"../x"'))


def test_names_that_lead_outside_are_refused(interrupted, thalweg):
    root = interrupted.root
    before = files_of(root)
    plan = json.loads((root / "out" / "plan.json").read_text())
    (root / "outside.json").write_text(json.dumps(outside(plan)))
    text = (root / "catalog.yaml").read_text()
    (root / "outside.yaml").write_text(text.replace("n2", '"../x"'))
    try:
        for arguments in (
            interrupted.run("--plan", "outside.json", out="new"),
            ["outside.yaml" if a == "catalog.yaml" else a for a in interrupted.run(out="new")],
        ):
            code, said, err = thalweg(*arguments, cwd=root)
            assert (code, said) == (2, "")
            assert "../x" in one_message(err)
            assert not (root / "new").exists()
    finally:
        (root / "outside.json").unlink()
        (root / "outside.yaml").unlink()
    assert files_of(root) == before
    assert not (root.parent / "x").exists()


@pytest.mark.long
def test_programs_that_lead_outside_are_refused(interrupted, thalweg):
    out = "out-programs"
    shutil.copytree(interrupted.root / "out", interrupted.root / out)
    file = min((interrupted.root / out / "_thalweg" / "programs").glob("*.json"))
    whole = file.read_text()
    file.write_text(whole.replace('"site":"n2"', '"site":"../x"'))
    assert file.read_text() != whole
    code, said, err = thalweg(*interrupted.run(*SLOW, out=out), cwd=interrupted.root)
    assert (code, said) == (2, ""), err
    assert str(file.relative_to(interrupted.root)) in one_message(err)
    assert not list(interrupted.root.rglob("x-*"))
    assert not list(interrupted.root.rglob("*-x"))

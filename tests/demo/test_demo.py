"""The demonstration in its parts, and, among the long tests, the whole of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from thalweg.adapt.history import History, Record
from thalweg.catalog import load
from thalweg.cli import demo as command
from thalweg.cli.main import invoke
from thalweg.demo import commands, play, shift
from thalweg.demo.figures import CENTRAL, LIVE, Latency, Ran, read_figures
from thalweg.demo.packets import EARLIER, LATENESS_S, QUERY, ROUTERS, SCHEMA, Traffic, destinations, rates
from thalweg.demo.picture import draw
from thalweg.demo.replay import Replay
from thalweg.demo.shift import ADAPTING, STAYING, Change, Course, Shift
from thalweg.plan.options import PlanOptions
from thalweg.planners.table import make_plan
from thalweg.processes import Process
from thalweg.query import parse

SMALL = Traffic(rate=80, seconds=5.0)
SHIFTING = Traffic(rate=80, seconds=8.0, speed=4.0, shift_s=2.0)
EACH = 95  # packets of all routers in the files of a moment


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, now=1_000.0):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        return True


@pytest.fixture
def replayed(tmp_path):
    clock = Clock()
    replay = Replay(SMALL, tmp_path / "packets", clock=clock, sleep=clock.sleep)
    replay.earlier()
    replay.run()
    return replay


def portion(traffic, router, number):
    return traffic.portion(router, number, 10**15, 10**15)


def test_a_portion_is_made_from_its_seed_and_just_before_it_is_handed_on():
    first, again = (portion(SMALL, "router2", 3) for _ in range(2))
    assert first == again
    assert first.schema == SCHEMA
    assert first != portion(SMALL, "router3", 3)
    assert first != portion(SMALL, "router2", 4)
    for traffic, oldest in ((SMALL, 800_000), (SHIFTING, 2_300_000)):
        ages = 10**15 - np.asarray(portion(traffic, "router2", 3)["ts"].cast("int64"))
        assert (ages >= 0).all()
        assert oldest / 2 < ages.max() <= oldest


def test_some_packets_are_later_than_the_catalog_allows():
    ages = 10**15 - np.asarray(portion(SMALL, "router1", 9)["ts"].cast("int64"))
    assert (ages > 60_000_000).sum() == 3


def networks(seen):
    """The share of each network among some destinations."""
    found = Counter(d.split(".")[1] for d in seen.to_pylist())
    return {network: n / len(seen) for network, n in found.items()}


def test_what_is_popular_at_one_router_is_rare_at_the_others():
    rng = np.random.default_rng(1)
    for n, router in enumerate(ROUTERS, 1):
        seen = networks(destinations(rng, router, 20_000))
        assert seen[str(n)] == pytest.approx(0.94, abs=0.01)
        assert sum(seen.values()) == pytest.approx(1)


def test_a_shift_takes_the_packets_to_a_network_past_another_router():
    before, after = EARLIER + 3, EARLIER + 4
    counts = {n: {r: SHIFTING.count(r, n) for r in ROUTERS} for n in (0, before, after)}
    assert counts[0] == counts[before] == {"router1": 40, "router2": 30, "router3": 25}
    assert counts[after] == {"router1": 3, "router2": 30, "router3": 62}
    rng = np.random.default_rng(1)
    assert networks(destinations(rng, "router3", 20_000, shifted=True))["1"] == pytest.approx(0.6, abs=0.01)
    assert networks(destinations(rng, "router1", 20_000, shifted=True))["1"] < 0.2
    assert networks(destinations(rng, "router2", 20_000, shifted=True))["2"] == pytest.approx(0.94, abs=0.01)


def measured(home, traffic):
    """The catalog of an act with the rates of the packets that are there, and its query."""
    (home / "catalog.yaml").write_text(traffic.catalog())
    (home / f"{QUERY}.sql").write_text(traffic.query())
    query, catalog = str(home / f"{QUERY}.sql"), str(home / "catalog.yaml")
    assert invoke(["stats", query, "--catalog", catalog, "--write"]) == 0
    found = load(home / "catalog.yaml")
    return found, parse(traffic.query(), name=QUERY, schemas=found.schemas)


def test_the_rates_in_the_catalog_are_measured_from_the_packets_before_the_run(tmp_path):
    traffic = Traffic()
    assert "stats" not in traffic.catalog()
    Replay(traffic, tmp_path / "packets").earlier()
    catalog, query = measured(tmp_path, traffic)
    assert [i.stream for i in query.inputs] == list(ROUTERS)
    assert {i.window.size for i in query.inputs} == {100_000}
    for router, per_s in (("router1", 2_000), ("router2", 1_500), ("router3", 1_250)):
        known = catalog.streams[router].stats
        assert known.rate == pytest.approx(per_s, rel=0.1)
        heaviest = {host: rate for host, rate in rates(router).items() if rate > 10}
        assert {h: known.rates["dest"][h] for h in heaviest} == pytest.approx(
            {h: 5 * rate for h, rate in heaviest.items()}, rel=0.3
        )


def planned(home, traffic=SMALL):
    catalog, query = measured(home, traffic)
    return [make_plan([query], catalog, PlanOptions(planner)) for planner in ("auto", "simple")]


def test_the_plan_that_is_chosen_ships_far_less_than_the_central_one(tmp_path):
    Replay(Traffic(), tmp_path / "packets").earlier()
    chosen, central = planned(tmp_path, Traffic())
    assert chosen.queries[0].planner == "pmjoin-optimal"
    assert central.total > 10 * chosen.total


def test_the_replay_hands_on_every_portion_at_its_time(replayed, tmp_path):
    files = EARLIER + SMALL.files
    assert replayed.sent == {r: 1 + n * files for r, n in zip(ROUTERS, (40, 30, 25), strict=True)}
    for router in ROUTERS:
        found = sorted((tmp_path / "packets" / router).iterdir())
        assert [f.name for f in found] == [f"{n:05d}.parquet" for n in range(files + 1)]
        *sent, last = [pq.read_table(f)["sent"][0].as_py().timestamp() for f in found]
        assert sent == [1_000.0] * EARLIER + [1_000.5 + 0.5 * n for n in range(SMALL.files)]
        assert last == pytest.approx(sent[-1] + SMALL.silence_s)
        newest = [pc.max(pq.read_table(f)["ts"]).as_py().timestamp() for f in found]
        assert newest[:-1] == pytest.approx(
            [1_000.0 + 0.5 * (n + 1 - EARLIER) for n in range(files)], abs=0.5
        )


def test_time_passes_faster_for_packets_that_shift_and_none_is_ahead(tmp_path):
    clock = Clock()
    replay = Replay(SHIFTING, tmp_path, clock=clock, sleep=clock.sleep)
    replay.earlier()
    assert not replay.shifted
    replay.run()
    assert replay.shifted
    for router in ROUTERS:
        packets = pq.read_table(tmp_path / router)
        assert pc.all(pc.less_equal(packets["ts"], packets["sent"])).as_py()
        span = (pc.max(packets["ts"]).as_py() - pc.min(packets["ts"]).as_py()).total_seconds()
        assert span > 4 * 0.5 * (SHIFTING.files + EARLIER - 2)


def test_packets_read_say_which_second_of_the_replay_it_was():
    every = EARLIER + SHIFTING.files
    read = np.array([0, EARLIER * EACH, (EARLIER + 4) * EACH, every * EACH, every * EACH + 3])
    assert SHIFTING.seconds_of(read) == pytest.approx([-4.5, 0, 2, 8, 8 + SHIFTING.silence_s])


def test_the_last_packets_come_when_all_else_is_over_and_meet_nobody(replayed, tmp_path):
    last = {r: pq.read_table(sorted((tmp_path / "packets" / r).iterdir())[-1]) for r in ROUTERS}
    assert len({t["dest"][0].as_py() for t in last.values()}) == 3
    for router, table in last.items():
        others = [pq.read_table(tmp_path / "packets" / r) for r in ROUTERS if r != router]
        assert not {table["dest"][0].as_py()} & {d for t in others for d in t["dest"].to_pylist()}
        over = LATENESS_S + SMALL.window_ms / 1000
        newest = max(pc.max(t["ts"].slice(0, t.num_rows - 1)).as_py() for t in others)
        assert (table["ts"][0].as_py() - newest).total_seconds() > over


def test_a_replay_that_fails_says_so(tmp_path):
    replay = Replay(SMALL, tmp_path, sleep=lambda seconds: 1 / 0)
    replay.start()
    assert replay.done.wait(10)
    assert isinstance(replay.error, ZeroDivisionError)


def test_a_replay_can_be_stopped(tmp_path):
    replay = Replay(Traffic(rate=10, seconds=3600, interval_s=3600), tmp_path)
    replay.start()
    replay.stop()
    assert replay.done.is_set()
    assert replay.error is None


def results(home, rows):
    """Result files as a run leaves them: (dest, sent, result_time) each, one file a row."""
    folder = home / "run" / "results" / QUERY
    folder.mkdir(parents=True)
    moment = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("dest", pa.string()), ("sent", moment), ("result_time", moment)])
    pq.write_table(schema.empty_table(), folder / "schema.parquet")
    for n, (dest, sent, time_) in enumerate(rows):
        columns = [
            pa.array([dest]),
            pa.array([int(sent * 1e6)]).cast(moment),
            pa.array([int(time_ * 1e6)]).cast(moment),
        ]
        pq.write_table(pa.table(columns, schema=schema), folder / f"{n:09d}-0000.parquet")


def ran(home, out, plan, found, payload):
    """The folder of a run by this plan."""
    folder = home / out
    plan.save(folder / "plan.json")
    metrics = {
        "input_rows": dict.fromkeys(ROUTERS, 550),
        "late_rows": dict.fromkeys(ROUTERS, 3),
        "output_rows": {QUERY: found},
        "shipped": [
            {"from": "site2", "to": "site1", "tuples": 2, "payload_bytes": payload, "bytes": 2 * payload}
        ],
        "central_payload_bytes": 30_000,
        "batches": 4,
        "complete": False,
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))


def shift_figures(home, found, same=True, changes=()):
    """The second act of two runs, of which the second has seen everything once more at its end."""
    folder = home / shift.FOLDER
    for out, plan, payload in zip((ADAPTING, STAYING), planned(home), (2_000, 9_000), strict=True):
        ran(folder, out, plan, found, payload)
    both = (Ran.read_from(folder / out, {"same": same, "expected": found}) for out in (ADAPTING, STAYING))
    read = [EACH * (EARLIER + file) for file in (0, 4, 8, 16)]
    samples = list(zip(read, (100, 480, 880, 1080), strict=True))
    others = [*zip(read, (100, 480, 2480, 10_000), strict=True), (read[-1], 10_480)]
    return Shift(SHIFTING, *both, *(Course.of(s, SHIFTING) for s in (samples, others)), tuple(changes))


def test_the_bytes_of_both_runs_are_told_phase_by_phase(replayed, tmp_path):
    found = shift_figures(tmp_path, 1)
    assert [(p.begin_s, p.end_s) for p in found.phases] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [round(p.adapting) for p in found.phases] == [380, 400, 100, 100]
    assert [round(p.staying) for p in found.phases] == [380, 2000, 4000, 4000]
    told = found.to_json()
    assert told["phases"][1] == {"from_s": 2, "to_s": 4, "adapting": 400, "staying": 2000}
    assert [p["shipped"]["payload_bytes"] for p in told["plans"]] == [2_000, 9_000]


CHANGE = Change(3.5, 4.25, "saves 61% of the cost", ("router1 rate: 9, now 2",), 100.0, 39.0, 2_345, 3.25)


def test_changes_are_told_in_seconds_of_the_replay(tmp_path):
    history = History(tmp_path / "_thalweg" / "changes.json")
    record = Record(
        at=5.0, event_time=24_000_000, moved=CHANGE.moved, reason=CHANGE.reason, cost_before=100.0,
        cost_after=39.0, first_cost=100.0, bytes_to_move=9.0, outcome="declined",
    )  # fmt: skip
    history.add(record)
    done = {"moment": 27_000_000, "bytes_moved": 2_345, "seconds": 3.25}
    for number, outcome in ((1, "done"), (2, "undone"), (3, "moving")):
        history.add(replace(record, change=number, outcome=outcome, **done))
    assert shift.read_changes(tmp_path, SHIFTING, 10_000_000) == (CHANGE,)
    assert CHANGE.to_json()["in_force_s"] == 4.25
    assert shift.read_changes(tmp_path / "other", SHIFTING, 10_000_000) == ()


def shown(table):
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(table)
    return console.export_text()


def test_the_table_of_the_second_act_has_phases_and_changes(replayed, tmp_path):
    text = shown(command.shift_table(shift_figures(tmp_path, 1, changes=[CHANGE])))
    for part in (
        "between sites, before the shift",
        "4 to 6 s after it",
        "40.0 times less",
        "plan changed 1.5 s after it",
        "saves 61% of the cost",
        "2.345 kB moved in 3.2 s",
    ):
        assert part in text
    assert "NO: DuckDB expects 1 results" in shown(
        command.shift_table(shift_figures(tmp_path, 1, same=False))
    )
    assert "never" in shown(command.shift_table(shift_figures(tmp_path, 1)))


def figures(home, found, same=True, begun=1_000.0):
    shipped = zip((LIVE, CENTRAL), planned(home), (2_000, 30_000), strict=True)
    for out, plan, payload in shipped:
        ran(home, out, plan, found, payload)
    both = (
        Ran.read_from(home / out, {"same": same or out == LIVE, "expected": found}) for out in (LIVE, CENTRAL)
    )
    return read_figures(home, *both, begun=begun)


def test_latency_counts_from_the_last_packet_and_leaves_out_the_warm_up(replayed, tmp_path):
    results(tmp_path, [("10.0.0.1", 1_000.0, 999.0), ("10.0.0.1", 1_003.0, 1_002.5)])
    found = figures(tmp_path, 2)
    files = sorted((tmp_path / "run" / "results" / QUERY).glob("0*.parquet"))
    status = files[1].stat()
    assert found.delays == pytest.approx([max(status.st_mtime, status.st_ctime) - 1_003.0])
    assert (found.live.results, found.live.late, sum(found.rows_in.values())) == (2, 9, 1650)
    told = found.to_json()
    assert told["latency_s"]["max"] == pytest.approx(found.delays[0], abs=0.001)
    assert told["times_less"] == 15.0
    assert told["verified"] is True
    assert [p["planner"] for p in told["plans"]] == ["pmjoin-optimal", "simple"]
    assert told["plans"][0]["shipped"] == {"tuples": 2, "payload_bytes": 2_000, "bytes": 4_000}


def test_latency_is_given_by_its_quantiles():
    assert Latency.of(np.array([])) is None
    assert Latency.of(np.arange(101.0)) == Latency(50.0, 95.0, 100.0)


@pytest.mark.parametrize("rows", [[], [("10.0.0.1", 1_003.0, 1_002.5)] * 3])
def test_the_picture_is_drawn_with_and_without_results(replayed, tmp_path, rows):
    dest = pq.read_table(tmp_path / "packets" / "router1")["dest"][0].as_py()
    results(tmp_path, [(dest, sent, moment) for _, sent, moment in rows])
    found = figures(tmp_path, len(rows))
    # Files are younger than the time of these tests by decades.
    found = type(found)(**{**found.__dict__, "published": np.arange(1.0, len(rows) + 1)})
    second = shift_figures(tmp_path, len(rows), changes=[CHANGE] * len(rows))
    draw(tmp_path, found, second, SMALL.window_ms / 1000, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_closing_table_says_whether_it_was_right(replayed, tmp_path):
    results(tmp_path, [("10.0.0.1", 1_003.0, 1_002.5)])
    for same, verdict in ((True, "yes"), (False, "NO: DuckDB expects 1 results")):
        text = shown(command.table(figures(tmp_path, 1, same)))
        assert verdict in text
        parts = ("packets in, router3", "results", "packets a second", "latency", "by pmjoin-optimal")
        for part in (*parts, "15.0 times less", "30 kB"):
            assert part in text


def test_the_folder_of_an_earlier_demonstration_is_replaced_and_no_other(tmp_path):
    home = tmp_path / "demo-out"
    with play._claimed(home):
        (home / "packets").mkdir()
        (home / "demo.png").write_text("old")
        with pytest.raises(Exception, match="another demo"), play._claimed(home):
            pass
    with play._claimed(home):
        assert [p.name for p in home.iterdir()] == [play.MARKER]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(Exception, match="not from a demo"), play._claimed(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_wrong_input_is_one_message_and_status_2(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for arguments in (
        ["demo", "--out", str(tmp_path / "file")],
        ["demo", "--rate", "0", "--out", str(tmp_path / "new")],
        ["demo", "--seconds", "nan", "--out", str(tmp_path / "new")],
        ["demo", "--rate", "many"],
    ):
        assert invoke(arguments) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "new").exists()


def test_a_run_is_quiet_when_no_batch_has_been_under_way_for_a_while(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(play.time, "monotonic", clock)
    run = play._Run(tmp_path, None, None, None)
    checkpoint = tmp_path / "_thalweg" / "checkpoint"
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True)

    def quiet_after(seconds):
        clock.now += seconds
        return run.is_quiet()

    (checkpoint / "offsets" / "9").touch()
    assert [quiet_after(1), quiet_after(5)] == [False, False]
    (checkpoint / "commits" / "9").touch()
    assert [quiet_after(1), quiet_after(1)] == [False, False]
    (checkpoint / "offsets" / "10").touch()
    assert not quiet_after(1)
    (checkpoint / "commits" / "10").touch()
    assert [quiet_after(0.1), quiet_after(1), quiet_after(1)] == [False, False, True]


def test_a_command_that_fails_is_told_with_what_it_said(tmp_path, capsys, monkeypatch):
    broken = "import sys; print('thalweg: no luck today', file=sys.stderr); sys.exit(1)"
    real = subprocess.Popen

    def start(command, **options):
        return real([sys.executable, "-c", broken], **options)

    monkeypatch.setattr(commands.subprocess, "Popen", start)
    assert invoke(["demo", "--out", str(tmp_path / "out"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no luck today" in err
    assert "Traceback" not in err


def test_a_child_that_will_not_end_is_killed(tmp_path, monkeypatch):
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    monkeypatch.setattr(commands, "_GRACE_S", 0.1)
    commands._stop(child)
    assert child.returncode == -signal.SIGKILL


def demo(home, *arguments):
    return [sys.executable, "-m", "thalweg", "demo", "--out", str(home), *arguments]


@pytest.mark.long
def test_the_whole_of_it(tmp_path):
    home = tmp_path / "demo-out"
    (home / "shift").mkdir(parents=True)  # an earlier demo
    (home / play.MARKER).touch()
    small = ("--rate", "400", "--seconds", "6", "--json")
    done = subprocess.run(demo(home, *small), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["verified"] is True
    assert sum(told["input_rows"].values()) == 3 + (200 + 150 + 125) * (9 + 20 + 12)  # the first to measure
    assert told["results"] > 500
    assert told["late_rows"] == 36
    assert [p["verified"] for p in told["plans"]] == [True, True]
    assert told["times_less"] > 2  # in all bytes, of which small parcels have most
    live, central = (p["shipped"]["payload_bytes"] for p in told["plans"])
    assert central > 10 * live
    second = told["shift"]
    assert [p["verified"] for p in second["plans"]] == [True, True]
    assert second["plans"][0]["results"] == second["plans"][1]["results"] > 500
    assert any(change["decided_s"] > second["after_s"] for change in second["changes"])
    adapting, staying = (second["phases"][-1][run] for run in (ADAPTING, STAYING))
    assert staying > 1.5 * adapting
    for run in (LIVE, CENTRAL, f"shift/{ADAPTING}", f"shift/{STAYING}"):
        assert "site3" in (home / run / "network.svg").read_text()
    assert (home / "demo.png").stat().st_size > 10_000
    assert [p.name for p in tmp_path.iterdir()] == ["demo-out"]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_all_that_it_started(tmp_path, number):
    home = tmp_path / "demo-out"
    # What a shell runs in the background ignores SIGINT, and so do its children unless they are told not to.
    command = ["env", "--default-signal=INT", *demo(home)]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (home / "run" / "_thalweg" / "jvm").exists():
        assert started.poll() is None
        time.sleep(0.2)
    jvm = Process.parse((home / "run" / "_thalweg" / "jvm").read_text())
    started.send_signal(number)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 1
    assert err.endswith("thalweg: interrupted\n")
    for _ in range(100):
        if not jvm.alive:
            return
        time.sleep(0.1)
    raise AssertionError("the JVM is still there")


def test_live_runs_have_the_page_and_others_do_not(tmp_path):
    said = []
    series = SimpleNamespace(say=lambda *arguments: said.append(arguments))
    for port in (8484, None):
        stage = play._Stage(tmp_path, "", None, series, None, port)
        stage.run("run", "--adapt", "off")
        stage.run("central", "--once")
    shown, central, plain, _ = said
    assert shown == (*plain, "--page", "8484")
    assert "--page" not in central + plain

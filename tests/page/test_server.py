"""What the page's server answers: the state, metrics, health, and to whom."""

import json
import socket
import threading

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from tests.page.growing import Growing
from thalweg.cli.main import invoke
from thalweg.errors import UserError
from thalweg.extras import PACKAGES
from thalweg.page import serve
from thalweg.page.others import Others, compared
from thalweg.page.reading import RunFolder
from thalweg.page.serve import Access, check_installed, listening
from thalweg.page.server import Watched, app
from thalweg.page.state import state

TOKEN = "a" * 32


@pytest.fixture
def run(tmp_path):
    made = Growing(tmp_path / "out", planner="optimal")
    made.back(30)
    return made


def client(run, token=None, **more):
    watched = Watched(run.out, clock=lambda: run.at)
    watched.others.found = {"planners": []}
    watched.others.now = lambda: watched.others.found
    return TestClient(app(watched, token), base_url="https://localhost", **more)


def values(text):
    """All samples: the value by name and labels."""
    return {
        (s.name, *sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_the_state_is_one_object(run):
    found = client(run).get("/api/state").json()
    assert {"sites", "operators", "links", "queries"} <= found.keys()
    assert found["run"]["state"] == "running"
    assert [s["name"] for s in found["sites"]] == ["n1", "n2", "n3"]
    last = run.point
    assert found["totals"]["rows"] == sum(last.read.values())
    assert found["queries"][0]["results"] == last.results["q"]
    joins = [o for o in found["operators"] if o["kind"] == "join"]
    assert joins and all(o["windows"] and o["reads"] for o in joins)
    link = found["links"][0]
    assert link["bytes"] == last.sent[f"{link['from']}-{link['to']}"][2]
    assert 0 < link["bytes_per_s"] < link["bytes"]
    assert len(found["series"]["recent"]["at"]) == 29


def test_rates_are_those_of_the_last_seconds(run):
    for _ in range(3):
        run.step(at=run.at + 1, silent="s2")
    seen = RunFolder(run.out).read()
    streams = {s["name"]: s for s in state(seen, run.at)["streams"]}
    assert streams["s2"]["rows_per_s"] < 2 * streams["s1"]["rows_per_s"]  # it brought twice as much before
    later = {s["name"]: s for s in state(seen, run.at + 60)["streams"]}
    assert later["s1"]["rows_per_s"] == 0.0
    run.end("complete")
    over = state(RunFolder(run.out).read(), run.at + 3600)
    assert over["totals"]["rows_per_s"] == pytest.approx(over["totals"]["rows"] / 33, rel=0.05)


def test_metrics_are_those_of_the_run(run):
    run.change("pmjoin-optimal")
    run.step(at=run.at + 1)
    answer = client(run).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found, last = values(answer.text), run.point
    assert found["thalweg_up",] == 1
    assert found["thalweg_batches_total",] == last.batch + 1
    assert found["thalweg_plan_changes_total",] == 1
    assert found["thalweg_rows_total", ("stream", "s2")] == last.read["s2"]
    assert found["thalweg_results_total", ("query", "q")] == last.results["q"]
    assert found["thalweg_late_rows_total", ("reason", "late"), ("stream", "s1")] == last.late["s1"]["late"]
    way, (tuples, payload, size) = next(iter(last.sent.items()))
    ends = (("from", way.split("-")[0]), ("to", way.split("-")[1]))
    assert found["thalweg_link_tuples_total", *ends] == tuples
    assert found["thalweg_link_payload_bytes_total", *ends] == payload
    assert found["thalweg_link_bytes_total", *ends] == size
    assert found["thalweg_result_latency_seconds_count",] == 10 * (last.batch + 1)
    assert found["thalweg_batch_seconds_bucket", ("le", "0.5")] == last.batch + 1
    assert found["thalweg_event_time_lag_seconds", ("stream", "s1")] == pytest.approx(0.2, abs=0.01)


def test_health_is_that_of_the_run(run):
    assert client(run).get("/healthz").status_code == 200
    run.vanish()
    answer = client(run).get("/healthz")
    assert (answer.status_code, answer.json()["state"]) == (503, "lost")
    run.end("complete")
    assert client(run).get("/healthz").status_code == 200
    run.end("failed", "no room")
    assert client(run).get("/healthz").status_code == 503


def test_trouble_is_named(run):
    for _ in range(12):
        run.step(at=run.at + 1, silent="s3")
    run.diary.say("warning", "stream s1: x was empty")
    run.step(at=run.at + 1, seconds=9.0, silent="s3")
    found = client(run).get("/api/state").json()["trouble"]
    texts = {t["kind"]: t["text"] for t in found}
    assert texts["slow-batch"] == "batch 42 took 9.0 s, the usual one takes 0.5 s"
    assert "stream s1: 43 tuples late" in texts["late"]
    assert texts["said"] == "stream s1: x was empty"
    for _ in range(20):
        run.step(at=run.at + 1, silent="s3")
    texts = {t["kind"]: t["text"] for t in client(run).get("/api/state").json()["trouble"]}
    assert texts["holds-back"] == "stream s3 holds the others back by 23 s"  # beyond its lateness


def test_a_run_that_has_just_begun(tmp_path):
    run = Growing(tmp_path / "out")
    found = client(run).get("/api/state").json()
    assert (found["run"]["state"], found["run"]["batches"], found["totals"]["rows"]) == ("starting", 0, 0)
    assert client(run).get("/metrics").status_code == 200
    (run.out / "plan.json").unlink()
    assert client(run).get("/api/state").json()["queries"] == []
    assert client(run).get("/api/map").json()["sites"] == []


def test_only_the_files_of_the_page_are_served(run):
    here = client(run)
    page = here.get("/")
    assert "<title>Thalweg</title>" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert here.get("/assets/app.js").headers["content-type"].startswith("text/javascript")
    for path in (
        "/assets/nothing.js",
        "/assets/..%2Fserver.py",
        "/assets/__init__.py",
        "/docs",
        "/openapi.json",
    ):
        assert here.get(path).status_code == 404, path


def test_a_page_of_elsewhere_can_not_read_it(run):
    assert client(run).get("/api/state", headers={"host": "evil.example"}).status_code == 400


def test_with_a_token_only_those_who_bring_it_get_an_answer(run):
    for path in ("/", "/metrics", "/healthz", "/api/state", "/assets/app.js", "/?token=wrong"):
        assert client(run, TOKEN).get(path).status_code == 401, path
    asked = {"authorization": f"Bearer {TOKEN}"}
    assert client(run, TOKEN).get("/metrics", headers=asked).status_code == 200
    assert client(run, TOKEN).get("/metrics", headers={"authorization": "Bearer x"}).status_code == 401
    browser = client(run, TOKEN)
    answer = browser.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in answer.headers["set-cookie"] and "Secure" in answer.headers["set-cookie"]
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_beyond_this_machine_a_token_and_tls_are_needed(host):
    with pytest.raises(UserError, match="needs a token and TLS; add --token-file, --tls-cert and --tls-key"):
        Access(host)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"can't be at 127.0.0.1:{port}: Address already in use"):
            listening(Access(port=port))


def test_without_a_port_the_first_free_one_is_taken(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(serve, "PORT", taken.getsockname()[1])
        with listening(Access()) as found:
            assert found.getsockname()[1] > taken.getsockname()[1]


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(PACKAGES, "page", ("json", "no_such_package"))
    with pytest.raises(UserError, match=r"the page needs no-such-package; pip install 'thalweg\[page\]'"):
        check_installed()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda out: None, "this is not the folder of a run; give the --out of a run"),
        (lambda out: (out / "_thalweg").mkdir(parents=True), "wrote nothing down for the page; continue it"),
    ],
)
def test_a_folder_without_a_run(tmp_path, capsys, make, message):
    make(tmp_path / "out")
    assert invoke(["page", str(tmp_path / "out"), "--port", "0"]) == 2
    assert message in capsys.readouterr().err


def test_other_planners_are_compared_by_the_statistics_of_the_run(run):
    found = compared(run.out)
    costs = {p["name"]: p["cost"] for p in found["planners"]}
    assert costs["pmjoin-optimal"] < costs["optimal"] < costs["simple"]
    assert found["measured"] is False
    json.dumps(found)


def test_the_planners_are_asked_only_when_somebody_wants_to_know(run, monkeypatch):
    asked = []
    monkeypatch.setattr(Others, "_ask", lambda self: asked.append(self.out))
    watched = Watched(run.out)
    here = TestClient(app(watched), base_url="https://localhost")
    assert here.get("/api/state").json()["planners"] is None
    assert not asked
    assert here.get("/api/planners").json() is None
    here.get("/api/planners")  # it has just been asked
    for thread in threading.enumerate():
        if thread.name.startswith("planners"):
            thread.join()
    assert asked == [run.out]
    watched.others.found = {"planners": []}
    assert here.get("/api/planners").json() == {"planners": []}


def test_a_page_beside_a_run_ends_with_it(run):
    with serve.beside(run.out, Access()) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=300) as there:
            there.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
            there.settimeout(300)
            assert b"200 OK" in there.recv(4096)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))

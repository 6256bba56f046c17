// The page: hears how the run is, and shows the view that is open.

import { byId, facts, hide, put, say } from "./dom.js";
import * as f from "./format.js";
import * as map from "./map.js";
import * as operators from "./operators.js";
import * as plan from "./plan.js";
import * as time from "./time.js";
import * as trouble from "./trouble.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const STATES = { starting: "starting", running: "running", complete: "complete", stopped: "stopped", failed: "failed", lost: "ended without a word" };
let state = null;

function view() {
  const wanted = location.hash.split("/")[1]; // "#/map": no element has such a name, so nothing scrolls
  return tabs.some((tab) => tab.dataset.view === wanted) ? wanted : "map";
}

function select(focus = false) {
  const now = view();
  for (const tab of tabs) {
    const chosen = tab.dataset.view === now;
    put(tab, "aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    hide(byId(tab.dataset.view), !chosen);
    if (chosen && focus) tab.focus();
  }
  const id = location.hash.split("/")[2];
  if (now === "operators" && id) operators.open(decodeURIComponent(id));
  if (state) render();
}

function openSite(site) {
  operators.only(site);
  location.hash = "/operators";
}

for (const tab of tabs) {
  tab.addEventListener("click", () => { location.hash = `/${tab.dataset.view}`; });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = step ? tabs.at((tabs.indexOf(tab) + step) % tabs.length) : { Home: tabs[0], End: tabs.at(-1) }[event.key];
    if (!to) return;
    event.preventDefault();
    history.replaceState(null, "", `#/${to.dataset.view}`);
    select(true);
  });
}
addEventListener("hashchange", () => select());

function head() {
  const { run, totals } = state;
  say(byId("name"), run.name);
  if (document.title !== `${run.name} · Thalweg`) document.title = `${run.name} · Thalweg`;
  say(byId("state"), STATES[run.state] ?? run.state);
  put(byId("state"), "class", `pill ${run.state}`);
  const restarts = run.restarts ? `, ${run.restarts} ${run.restarts === 1 ? "restart" : "restarts"}` : "";
  say(byId("facts"), run.started ? `${f.span(run.elapsed_s)}, ${f.count(run.batches)} batches${restarts}` : "");
  const over = run.state === "running" || run.state === "starting" ? "" : " on average";
  const less = totals.payload_bytes && totals.central_bytes ? totals.central_bytes / totals.payload_bytes : null;
  const compared = less === null ? f.NONE : Math.abs(less - 1) < 0.05 ? "the same" : less < 1 ? `${(1 / less).toFixed(1)} times more` : `${less.toFixed(1)} times less`;
  facts(byId("tiles"), [
    ["rows read", `${f.rate(totals.rows_per_s)}${over}`],
    ["results", `${f.rate(totals.results_per_s)}${over}`],
    ["between sites", `${f.byteRate(totals.bytes_per_s)}${over}`],
    ["beside the central plan", compared],
    ["latency p95", f.span(totals.p95_s)],
    ["late or aside", f.count(totals.late)],
  ]);
}

function render() {
  head();
  const views = { operators, time, plan };
  if (view() === "map") map.show(state, openSite);
  else if (views[view()]) views[view()].show(state);
  trouble.show(state);
}

function update(text) {
  const begun = performance.now();
  state = JSON.parse(text);
  render();
  if (performance.getEntriesByName("update").length > 100) performance.clearMeasures("update");
  performance.measure("update", { start: begun, end: performance.now() });
  put(document.body, "data-batch", state.run.batches);
}

function follow() {
  const source = new EventSource("/api/events");
  source.addEventListener("message", (event) => {
    hide(byId("lost"), true);
    update(event.data);
  });
  source.addEventListener("error", () => {
    hide(byId("lost"), false);
    if (source.readyState === EventSource.CLOSED) {
      source.close();
      setTimeout(follow, 2000);
    }
  });
}

select();
follow();

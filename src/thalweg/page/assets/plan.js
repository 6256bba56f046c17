// The plan in force, what others would cost, and what has changed.

import { byId, cells, facts, hide, keyed, make, row, say } from "./dom.js";
import * as f from "./format.js";

const PLANNER = ["planner", "family", "cost", "beside the plan in force"];
const CHANGE = ["when", "outcome", "reason", "cost before", "cost after", "moved", "took"];

const AGAIN = 30000;
let asked = -AGAIN;

// The planners cost time: they are asked while somebody looks, and the answer comes with a later state.
function ask() {
  if (performance.now() - asked < AGAIN) return;
  asked = performance.now();
  fetch("/api/planners").catch(() => {}); // the connection is lost, which the page says
}

export function show(state) {
  const plan = state.plan;
  if (!plan) return;
  ask();
  const unit = plan.unit;
  facts(byId("in-force"), [
    ["planner", plan.planner],
    ["expected cost", `${f.amount(plan.cost)} ${unit}`],
    ["payload now", `${f.byteRate(state.totals.payload_per_s)}; all streams to one site: ${f.byteRate(state.totals.central_per_s)}`],
    ["since batch", f.count(plan.number)],
    ["on its way", plan.moving_to === null ? "no other plan" : `the plan of batch ${f.count(plan.moving_to)}`],
  ]);
  others(state.planners, plan, unit);
  hide(byId("no-changes"), plan.changes.length > 0);
  hide(byId("changes"), plan.changes.length === 0);
  keyed(byId("changes").tBodies[0], [...plan.changes].reverse(), (c) => c.at, () => row(CHANGE), (node, c) => {
    const why = c.because.length ? `${c.reason} (${c.because.slice(0, 3).join("; ")})` : c.reason;
    cells(node, [f.moment(c.at), c.outcome, why, `${f.amount(c.cost_before)} ${unit}`, `${f.amount(c.cost_after)} ${unit}`, f.bytes(c.bytes_moved), f.span(c.seconds)]);
  });
  keyed(byId("queries"), state.queries, (q) => q.name, query, (node, q) => {
    const text = plan.queries.find((p) => p.query === q.name);
    say(node.sql, q.sql.trim());
    say(node.text, text ? text.text : "");
    say(node.heads, text ? text.heads.join("\n") : "");
    hide(node.heads, !text?.heads.length);
    say(node.results, `${f.count(q.results)} results, ${f.rate(q.results_per_s)} now`);
  });
}

function query(q) {
  const made = make("article", {}, make("h3", {}, q.name));
  made.results = make("p", { class: "quiet" });
  made.sql = make("pre", { tabindex: 0, "aria-label": "the query" });
  made.text = make("pre", { tabindex: 0, "aria-label": "the plan" });
  made.heads = make("pre", { tabindex: 0, "aria-label": "the way of each head" });
  made.append(made.results, made.sql, made.heads, make("details", {}, make("summary", {}, "All operators, from the sinks down to the sources"), made.text));
  return made;
}

function others(found, plan, unit) {
  hide(byId("planners"), !found);
  if (!found) return;
  say(byId("planners-how"), found.measured ? "By what the run has measured." : "By the statistics of the catalog: the run has measured too little so far.");
  const ordered = [...found.planners].sort((a, b) => a.cost - b.cost);
  keyed(byId("planners").tBodies[0], ordered, (p) => p.name, bar, (node, p) => {
    cells({ children: [...node.children].slice(0, 3) }, [p.name + (p.chose?.length ? ` (${p.chose.join(", ")})` : ""), p.family, `${f.amount(p.cost)} ${unit}`]);
    const most = Math.max(...ordered.map((o) => o.cost), 1e-9);
    node.bar.style.width = `${(100 * p.cost) / most}%`;
    const times = plan.cost > 0 ? p.cost / plan.cost : null;
    say(node.times, times === null ? "" : Math.abs(times - 1) < 0.005 ? "the same" : `${times.toFixed(2)} times`);
  });
}

function bar() {
  const node = row(PLANNER);
  node.bar = make("span", { class: "bar-of" });
  node.times = make("span", { class: "times" });
  node.lastChild.append(node.bar, node.times);
  return node;
}

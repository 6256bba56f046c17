// What the run has done over time.

import { byId } from "./dom.js";
import * as f from "./format.js";
import { Chart } from "./chart.js";

const charts = [
  new Chart("Rows read", [{ of: "rows", name: "all streams" }], (v) => f.rate(v)),
  new Chart("Results", [{ of: "results", name: "all queries" }], (v) => f.rate(v)),
  new Chart(
    "Payload between sites",
    [{ of: "payload", name: "this plan" }, { of: "central", name: "all streams to one site" }],
    f.byteRate,
  ),
  new Chart("All bytes between sites", [{ of: "bytes", name: "as sent" }], f.byteRate),
  new Chart(
    "Latency of results",
    [{ of: "p50", name: "p50" }, { of: "p95", name: "p95" }],
    f.span,
  ),
  new Chart("Micro-batches", [{ of: "batch", name: "each took" }], f.span),
  new Chart("Late tuples", [{ of: "late", name: "all streams" }], (v) => f.rate(v)),
  new Chart("State in memory", [{ of: "memory", name: "all operators" }], f.bytes),
];
byId("charts").append(...charts.map((chart) => chart.figure));

let state = null;
for (const choice of document.getElementsByName("span")) {
  choice.addEventListener("change", () => state && show(state));
}

export function show(now) {
  state = now;
  const wanted = document.querySelector("input[name=span]:checked").value;
  for (const chart of charts) chart.show(now.series[wanted]);
}

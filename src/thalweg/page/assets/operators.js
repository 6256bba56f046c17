// The operators: a table of all, and one of them in detail.

import { byId, cells, facts, hide, keyed, make, put, row, say } from "./dom.js";
import * as f from "./format.js";

const HEADS = ["operator", "kind", "site", "in", "out", "holds", "memory", "behind"];
const table = byId("operator-table").tBodies[0];
const find = byId("find");
const detail = byId("detail");
let state = null;
let opened = null;

find.addEventListener("input", () => state && show(state));
byId("close").addEventListener("click", () => open(null));
detail.addEventListener("keydown", (event) => event.key === "Escape" && open(null));

function title(o) {
  const of = o.kind === "join" && o.windows.length ? ` of ${o.windows.map((w) => w.of.replaceAll(" ", ", ")).join(" and ")}` : "";
  return `${o.query ? `${o.query}: ` : ""}${o.name}${o.kind === "keep" ? " kept" : ""}${of}`;
}

export function show(now) {
  state = now;
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (o) => `${title(o)} ${o.id} ${o.kind} ${o.site} ${o.state}`.toLowerCase();
  const found = now.operators.filter((o) => words.every((w) => text(o).includes(w)));
  say(byId("how-many"), `${found.length} of ${now.operators.length} operators`);
  keyed(table, found, (o) => o.id, made, (node, o) => {
    cells(node.cellsOf, [o.kind + (o.state ? `, ${o.state}` : ""), o.site, f.rate(o.in_per_s), f.rate(o.out_per_s), f.short(o.window_rows), f.bytes(o.memory_bytes), f.span(o.behind_s)]);
    say(node.button, title(o));
    put(node.button, "aria-expanded", o.id === opened);
    put(node, "class", o.id === opened ? "opened" : null);
  });
  describe();
}

function made(o) {
  const node = row(HEADS);
  node.button = make("button", { class: "link", "aria-expanded": "false" });
  node.button.addEventListener("click", () => open(o.id === opened ? null : o.id));
  node.firstChild.append(node.button);
  node.cellsOf = { children: [...node.children].slice(1) };
  return node;
}

export function open(id) {
  const before = opened;
  opened = id;
  if (state) show(state);
  if (id) byId("detail-name").focus();
  else if (before) table.kept?.get(before)?.button.focus();
}

export function only(site) {
  find.value = site;
  if (state) show(state);
}

function names(ids, form = () => "") {
  const by = new Map(state.operators.map((o) => [o.id, o]));
  return ids.map((one) => {
    const o = by.get(one.from ?? one.to);
    return `${o ? title(o) : one.from ?? one.to} at ${one.site}${form(one)}`;
  }).join("; ");
}

function describe() {
  const o = state.operators.find((one) => one.id === opened);
  hide(detail, !o);
  if (!o) return;
  const other = (one) => (one.form && one.form !== "tuples" ? ` (${one.form})` : "");
  const windows = o.windows.map((w) => `${w.of || "output"}: ${w.rows ? "a number of rows" : w.seconds === null ? "as long as its tuples say" : f.span(w.seconds)}`);
  say(byId("detail-name"), title(o));
  facts(detail.querySelector("dl"), [
    ["kind", o.kind + (o.state ? `, ${o.state}` : "")],
    ["site", o.site],
    ["reads", names(o.reads, other) || (o.kind === "source" ? "the stream itself" : "nothing")],
    ["read by", names(o.read_by) || (o.gives_results ? "nobody: it gives results" : "nobody")],
    ["in", `${f.rate(o.in_per_s, "tuples")}; ${f.count(o.tuples_in)} in all`],
    ["out", `${f.rate(o.out_per_s, "tuples")}; ${f.count(o.tuples_out)} in all`],
    ["windows", windows.join("; ") || "none"],
    ["holds", `${f.count(o.window_rows)} tuples`],
    ["memory", f.bytes(o.memory_bytes)],
    ["on disk", f.bytes(o.disk_bytes)],
    ["event time", f.moment(o.event_time)],
    ["behind the newest tuple", f.span(o.behind_s)],
    ["called in", `stage ${o.stage}, ${o.buckets} ${o.buckets === 1 ? "bucket" : "buckets"}`],
    ["full name", o.id],
  ]);
}

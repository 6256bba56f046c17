// The map: sites, and what flows between them now; the same in tables below it.

import { byId, cells, draw, hide, keyed, put, row, say } from "./dom.js";
import * as f from "./format.js";

const svg = byId("drawing");
let shown = null;
let arrows = new Map();
let asking = false;

const way = (link) => `${link.from}>${link.to}`;

export async function show(state, openSite) {
  links(state.links);
  streams(state.streams);
  if ((shown === null || shown.number !== state.map) && !asking) {
    asking = true;
    try {
      const answer = await fetch("/api/map");
      if (answer.ok) lay(await answer.json(), openSite);
    } catch {
      return; // the connection is lost, which the page says
    } finally {
      asking = false;
    }
  }
  flow(state.links);
}

function path(points) {
  const [first, ...rest] = points;
  const to = (p) => `${p[0]} ${p[1]}`;
  let text = `M${to(first)}`;
  rest.forEach((p, n) => {
    const next = rest[n + 1];
    text += next ? ` Q${to(p)} ${(p[0] + next[0]) / 2} ${(p[1] + next[1]) / 2}` : ` L${to(p)}`;
  });
  return text;
}

function head(kind) {
  return draw(
    "marker",
    { id: `head-${kind}`, viewBox: "0 0 10 10", refX: 1, refY: 5, markerWidth: 9, markerHeight: 9, orient: "auto", markerUnits: "userSpaceOnUse", class: kind },
    draw("path", { d: "M0 0.5 L10 5 L0 9.5 Z" }),
  );
}

function lay(map, openSite) {
  shown = map;
  arrows = new Map();
  put(svg, "viewBox", `0 0 ${map.width || 1} ${map.height || 1}`);
  svg.style.maxWidth = `${1.9 * map.width}px`;
  svg.style.minWidth = `${Math.min(0.95 * map.width, 1400)}px`;
  const lines = draw("g", { class: "links" });
  const labels = draw("g", { class: "labels" });
  for (const link of map.links) {
    const line = draw("path", { d: path(link.path), fill: "none" });
    const rate = draw("tspan", { class: "rate" });
    const share = draw("tspan", { class: "share" });
    const label = draw("text", { "text-anchor": "middle" }, rate, share);
    if (link.label) {
      rate.setAttribute("x", link.label[0]);
      rate.setAttribute("y", link.label[1] - 1.5);
      share.setAttribute("x", link.label[0]);
      share.setAttribute("y", link.label[1] + 7.5);
    }
    lines.append(line);
    labels.append(label);
    arrows.set(way(link), { line, rate, share });
  }
  const boxes = draw("g", { class: "sites" });
  for (const site of map.sites) boxes.append(box(site, openSite));
  svg.replaceChildren(draw("defs", {}, head("calm"), head("busy"), head("full")), lines, boxes, labels);
}

function box(site, openSite) {
  const [x, y] = site.corner;
  const [width, height] = site.size;
  const made = draw(
    "g",
    { class: "site", tabindex: 0, role: "button", "aria-label": `operators at ${site.name}` },
    draw("rect", { x, y, width, height, rx: 5 }),
    draw("text", { x: x + 8, y: y + 13, class: "name" }, site.name),
  );
  site.lines.forEach((line, n) => {
    made.append(draw("text", { x: x + 8, y: y + 24 + n * 10.6, class: `line ${line.kind}` }, line.text));
  });
  made.addEventListener("click", () => openSite(site.name));
  made.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      openSite(site.name);
    }
  });
  return made;
}

const level = (share) => (share >= 0.8 ? "full" : share >= 0.5 ? "busy" : "calm");

function flow(links) {
  const most = Math.max(1, ...links.map((l) => l.bytes_per_s));
  for (const link of links) {
    const arrow = arrows.get(way(link));
    if (!arrow) continue;
    const kind = level(link.share ?? 0);
    put(arrow.line, "class", link.bytes_per_s ? kind : `${kind} still`);
    put(arrow.line, "marker-end", `url(#head-${kind})`);
    put(arrow.line, "stroke-width", (0.8 + 3.4 * Math.sqrt(link.bytes_per_s / most)).toFixed(1));
    say(arrow.rate, f.byteRate(link.bytes_per_s));
    say(arrow.share, link.share === null ? "" : `${f.percent(link.share)} of link`);
  }
  const said = links.map((l) => `${l.from} to ${l.to} ${f.byteRate(l.bytes_per_s)}`).join(", ");
  put(svg, "aria-label", `Sites and what flows between them: ${said || "nothing yet"}`);
}

const LINK = ["link", "now", "of the link", "so far", "payload", "tuples", "delay", "carries"];

function links(all) {
  hide(byId("links"), all.length === 0);
  hide(byId("no-links"), all.length > 0);
  const ordered = [...all].sort((a, b) => b.bytes - a.bytes || way(a).localeCompare(way(b)));
  keyed(byId("links").tBodies[0], ordered, way, () => row(LINK), (node, l) => {
    cells(node, [
      `${l.from} → ${l.to}`,
      f.byteRate(l.bytes_per_s),
      f.percent(l.share),
      f.bytes(l.bytes),
      f.bytes(l.payload_bytes),
      f.count(l.tuples),
      f.span(l.delay_s),
      l.carries.join("; ") || (l.in_plan ? "" : "not in the plan now"),
    ]);
  });
}

const STREAM = ["stream", "site", "now", "rows", "late or aside", "event time", "holds others back"];

function streams(all) {
  keyed(byId("streams").tBodies[0], all, (s) => s.name, () => row(STREAM), (node, s) => {
    const late = Object.entries(s.late).map(([why, n]) => `${f.count(n)} ${why}`).join(", ");
    const lag = s.ended ? "ended" : s.lag_s === null ? "none yet" : s.lag_s < 0 ? `${f.span(-s.lag_s)} ahead` : `${f.span(s.lag_s)} ago`;
    cells(node, [s.name, s.site, f.rate(s.rows_per_s, "rows"), f.count(s.rows), late || "0", lag, s.holds_back_s > 0 ? f.span(s.holds_back_s) : "no"]);
  });
}

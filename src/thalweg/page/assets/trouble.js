// What needs attention, and what the run has said.

import { byId, hide, keyed, make, put, say } from "./dom.js";
import { clock } from "./format.js";

const SIGNS = { error: "✕", warning: "!", note: "i" };
const NAMES = { error: "error", warning: "warning", note: "note" };

export function show(state) {
  const all = state.trouble;
  hide(byId("well"), all.length > 0);
  const serious = all.filter((t) => t.level !== "note").length;
  hide(byId("troubles"), serious === 0);
  say(byId("troubles"), String(serious));
  keyed(byId("troubles-list"), all, (t) => `${t.level} ${t.kind} ${t.subject} ${t.at ?? ""}`, item, (node, t) => {
    put(node, "class", t.level);
    say(node.text, t.text);
    say(node.time, t.at ? clock(t.at) : "");
  });
  const messages = [...state.run.messages].reverse();
  keyed(byId("messages"), messages, (m) => `${m.at} ${m.text}`, message, () => {});
}

function item(t) {
  const node = make("li", {}, make("b", { "aria-label": NAMES[t.level] }, SIGNS[t.level]));
  node.text = make("span");
  node.time = make("time", { class: "quiet" });
  node.append(node.text, node.time);
  return node;
}

function message(m) {
  return make("li", { class: m.level }, make("time", { class: "quiet" }, clock(m.at)), ` ${m.text}`);
}

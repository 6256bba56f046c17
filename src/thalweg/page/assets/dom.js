// Changes of the page in place: a node is only touched where what it shows is another.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function say(node, text) {
  const one = node.firstChild;
  if (one && one.nodeType === Node.TEXT_NODE && node.childNodes.length === 1) {
    if (one.data !== text) one.data = text;
  } else if (node.textContent !== text || !one) {
    node.textContent = text;
  }
}

export function put(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

// The children of a node follow a list: each item has one by its key, which stays as long as the item does.
export function keyed(parent, items, key, create, update) {
  const old = (parent.kept ??= new Map());
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (now.has(name)) continue;
    const node = old.get(name) ?? create(item);
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    now.set(name, node);
  }
  for (const [name, node] of old) if (!now.has(name)) node.remove();
  parent.kept = now;
}

// A table row: `cells` are texts, the first one its heading.
export function row(labels) {
  const made = make("tr");
  labels.forEach((label, n) => {
    made.append(n ? make("td", { "data-label": label }) : make("th", { scope: "row" }));
  });
  return made;
}

export function cells(node, texts) {
  texts.forEach((text, n) => say(node.children[n], text));
}

// A list of terms with their values.
export function facts(node, pairs) {
  keyed(
    node,
    pairs,
    ([term]) => term,
    ([term]) => make("div", {}, make("dt", {}, term), make("dd")),
    (made, [, value]) => say(made.lastChild, value),
  );
}

// A chart of lines over time, changed in place.

import { draw, make, put, say } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 480, HEIGHT = 170, LEFT = 62, RIGHT = 8, TOP = 8, BOTTOM = 22;

function top(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= value * 1.0001) ?? 10 * power;
}

export class Chart {
  constructor(title, lines, format) {
    this.lines = lines;
    this.format = format;
    this.figure = make("figure", { class: "chart" });
    this.legend = make("figcaption", {}, make("strong", {}, title));
    this.values = lines.map((line, n) => {
      const value = make("span", { class: "value" });
      this.legend.append(make("span", { class: `legend line-${n}` }, make("i"), `${line.name} `, value));
      return value;
    });
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    this.title = title;
    this.grid = [0, 0.5, 1].map((part) => {
      const y = TOP + (1 - part) * (HEIGHT - TOP - BOTTOM);
      const text = draw("text", { x: LEFT - 6, y: y + 3.5, "text-anchor": "end" });
      this.svg.append(draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, class: "grid" }), text);
      return text;
    });
    this.times = [0, 0.5, 1].map((part) => {
      const anchor = ["start", "middle", "end"][2 * part];
      const text = draw("text", { x: LEFT + part * (WIDTH - LEFT - RIGHT), y: HEIGHT - 6, "text-anchor": anchor });
      this.svg.append(text);
      return text;
    });
    this.marks = draw("path", { class: "marks" });
    this.paths = lines.map((_, n) => draw("path", { class: `line-${n}`, fill: "none" }));
    this.cursor = draw("line", { y1: TOP, y2: HEIGHT - BOTTOM, class: "cursor", visibility: "hidden" });
    this.svg.append(this.marks, ...this.paths, this.cursor);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.figure.append(this.legend, this.svg);
  }

  show(series) {
    this.series = series;
    const at = series.at;
    const all = this.lines.flatMap((line) => series[line.of]).filter((v) => v !== null);
    const most = top(Math.max(0, ...all));
    const [first, last] = [at[0] ?? 0, at[at.length - 1] ?? 1];
    this.x = (t) => LEFT + ((t - first) / Math.max(last - first, 1e-3)) * (WIDTH - LEFT - RIGHT);
    const y = (v) => TOP + (1 - v / most) * (HEIGHT - TOP - BOTTOM);
    this.grid.forEach((text, n) => say(text, this.format((most * n) / 2)));
    this.times.forEach((text, n) => say(text, at.length ? clock(first + ((last - first) * n) / 2) : ""));
    this.lines.forEach((line, n) => {
      let text = "", down = false;
      series[line.of].forEach((value, i) => {
        if (value !== null) text += `${down ? "L" : "M"}${this.x(at[i]).toFixed(1)} ${y(value).toFixed(1)}`;
        down = value !== null;
      });
      put(this.paths[n], "d", text);
    });
    let marks = "";
    series.changes.forEach((n, i) => {
      if (i && n > series.changes[i - 1]) marks += `M${this.x(at[i]).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`;
    });
    put(this.marks, "d", marks);
    this.tell();
  }

  point(event) {
    this.at = null;
    if (event && this.series?.at.length) {
      const box = this.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      const away = this.series.at.map((t) => Math.abs(this.x(t) - x));
      this.at = away.indexOf(Math.min(...away));
    }
    this.tell();
  }

  tell() {
    const { series } = this;
    const n = this.at ?? series.at.length - 1;
    put(this.cursor, "visibility", this.at === null || this.at === undefined ? "hidden" : "visible");
    if (this.at !== null && this.at !== undefined && this.x) {
      put(this.cursor, "x1", this.x(series.at[n]));
      put(this.cursor, "x2", this.x(series.at[n]));
    }
    const said = this.lines.map((line, i) => {
      const text = this.format(series[line.of][n]);
      say(this.values[i], text);
      return `${line.name} ${text}`;
    });
    put(this.svg, "aria-label", `${this.title}: ${said.join(", ")}`);
  }
}

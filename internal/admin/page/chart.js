// Charts of the last hour. What they show is in a table as well.

import { el, svg, put } from "./dom.js";
import { span, count, clock } from "./format.js";

const left = 44, bottom = 18, top = 8, height = 124;

// nice is the least round number that is not below n.
function nice(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((f) => f >= n);
}

export class Chart {
  // how: title, key ([class, text] each), columns ([title, of a point] each), unit (number → text), and draw(chart, points, x, y).
  constructor(figure, how) {
    this.figure = figure;
    this.how = how;
    this.points = [];
    this.title = el("span", { class: "title" }, how.title);
    this.key = el("span", { class: "key" }, ...how.key.map(([name, text]) => el("span", { class: name }, text)));
    this.picture = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.summary = el("p", { class: "unseen" });
    this.body = el("tbody");
    const head = el("tr", {}, el("th", { scope: "col" }, "From"), ...how.columns.map(([title]) => el("th", { scope: "col", class: "num" }, title)));
    const table = el("table", {}, el("caption", { class: "unseen" }, how.title), el("thead", {}, head), this.body);
    this.details = el("details", {}, el("summary", {}, "Figures"), el("div", { tabindex: "0", role: "group", "aria-label": how.title }, table));
    figure.replaceChildren(el("figcaption", {}, this.title, this.key), this.summary, this.picture, this.details);
    this.picture.addEventListener("pointermove", (e) => this.point(e));
    this.picture.addEventListener("pointerleave", () => this.point(null));
    this.details.addEventListener("toggle", () => this.tabulate());
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  show(points) {
    this.points = points;
    this.draw();
    this.tabulate();
    put(this.summary, this.how.summary(points));
  }

  draw() {
    const width = this.picture.clientWidth, points = this.points;
    if (!width || !points.length) return;
    const most = nice(Math.max(this.how.least, ...points.map(this.how.most)));
    const x = (i) => left + ((i + 0.5) * (width - left)) / points.length;
    const y = (v) => top + (1 - v / most) * (height - top - bottom);
    const parts = [];
    for (const v of [0, most / 2, most]) {
      parts.push(svg("line", { class: "grid", x1: left, x2: width, y1: y(v), y2: y(v) }));
      if (v === 0 || v === most || !this.how.whole || Number.isInteger(v)) {
        parts.push(svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, this.how.unit(v)));
      }
    }
    for (const [share, text, anchor] of [[0, "1 h ago", "start"], [0.5, "30 min", "middle"], [1, "now", "end"]]) {
      parts.push(svg("text", { x: left + share * (width - left), y: height - 3, "text-anchor": anchor }, text));
    }
    parts.push(...this.how.draw(points, x, y, (width - left) / points.length));
    this.cursor = svg("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
    this.picture.replaceChildren(...parts, this.cursor);
    this.x = x;
  }

  // point shows the figures under the pointer in place of the key.
  point(event) {
    const points = this.points;
    let i = -1;
    if (event && points.length) {
      const box = this.picture.getBoundingClientRect();
      i = Math.floor(((event.clientX - box.left - left) / (box.width - left)) * points.length);
    }
    if (!points[i]) {
      this.cursor?.setAttribute("visibility", "hidden");
      this.key.replaceChildren(...this.how.key.map(([name, text]) => el("span", { class: name }, text)));
      return;
    }
    this.cursor.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(i));
    const figures = this.how.columns.map(([title, of]) => `${title.toLowerCase()} ${of(points[i])}`);
    this.key.replaceChildren(`${clock(points[i].start)} · ${figures.join(" · ")}`);
  }

  tabulate() {
    if (!this.details.open) return;
    const shown = this.points.filter(this.how.some).reverse();
    this.body.replaceChildren(...shown.map((p) => el("tr", {}, el("th", { scope: "row" }, clock(p.start)),
      ...this.how.columns.map(([, of]) => el("td", { class: "num" }, of(p))))));
  }
}

// times draws the median and the 99th percentile of one kind of times, with gaps where there are none.
export function times(title, kind, what) {
  const line = (points, x, y, of, name) => {
    let d = "", drawn = false;
    points.forEach((p, i) => {
      if (!p[kind].count) { drawn = false; return; }
      const next = points[i + 1];
      d += `${drawn ? "L" : "M"}${x(i).toFixed(1)} ${y(of(p[kind])).toFixed(1)}`;
      if (!drawn && !(next && next[kind].count)) d += "h.01";
      drawn = true;
    });
    return svg("path", { class: `line ${name}`, d, "stroke-linecap": "round" });
  };
  return {
    title, least: 1, unit: span, most: (p) => p[kind].p99_ms, some: (p) => p[kind].count > 0,
    key: [["p50", "median"], ["p99", "99th percentile"]],
    columns: [["Median", (p) => span(p[kind].p50_ms)], ["99th", (p) => span(p[kind].p99_ms)], ["Longest", (p) => span(p[kind].max_ms)], [what, (p) => count(p[kind].count)]],
    draw: (points, x, y) => [line(points, x, y, (t) => t.p99_ms, "slow"), line(points, x, y, (t) => t.p50_ms, "")],
    summary: (points) => {
      const n = points.reduce((sum, p) => sum + p[kind].count, 0);
      return n ? `${count(n)} ${what.toLowerCase()} in the last hour, the longest ${span(Math.max(...points.map((p) => p[kind].max_ms)))}.` : `No ${what.toLowerCase()} in the last hour.`;
    },
  };
}

// bars draws how many were refused: those who waited in vain on top of all others.
export const bars = {
  title: "Refused per minute", least: 4, whole: true, unit: (n) => count(n), most: (p) => p.locked + p.fenced, some: (p) => p.locked + p.fenced > 0,
  key: [["stale", "unsafe"], ["vain", "waited in vain"]],
  columns: [["Unsafe", (p) => count(p.fenced)], ["Waited in vain", (p) => count(p.locked)]],
  draw: (points, x, y, step) => points.flatMap((p, i) => {
    const wide = Math.max(step - 1.5, 1), at = x(i) - wide / 2;
    return [["stale", 0, p.fenced], ["vain", p.fenced, p.fenced + p.locked]].filter(([, from, to]) => to > from)
      .map(([name, from, to]) => svg("rect", { class: `bar ${name}`, x: at, width: wide, y: y(to), height: y(from) - y(to) }));
  }),
  summary: (points) => {
    const sum = (of) => points.reduce((n, p) => n + of(p), 0);
    return `${count(sum((p) => p.fenced))} unsafe commands and ${count(sum((p) => p.locked))} that waited in vain were refused in the last hour.`;
  },
};

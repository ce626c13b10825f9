// The status page. A stream says each second how things are; what is listed is asked for then, page by page.

import { el, byId, put, sync } from "./dom.js";
import { Chart, times, bars } from "./chart.js";
import { span, count, rate, ago, clock, caller } from "./format.js";
import { get, tag, follow, askToBreak } from "./detail.js";

const pageSize = 50, feedSize = 60;
const state = { paused: false, offset: 0, sort: "age", order: "desc", overview: null, heard: 0, loaded: "" };
const charts = [
  new Chart(byId("chart-waits"), times("Waiting time", "waits", "Waits")),
  new Chart(byId("chart-holds"), times("Holding time", "holds", "Holds")),
  new Chart(byId("chart-refusals"), bars),
];

// Of each list at most one question is under way; whoever asks meanwhile has it asked once more.
function asker(ask) {
  let busy = false, again = false;
  return async function run() {
    if (busy) { again = true; return; }
    busy = true;
    try { await ask(); } catch { /* the stream says that the proxy is gone */ }
    busy = false;
    if (again) { again = false; run(); }
  };
}

const nameCell = (id, text, sub) => [
  el("a", { class: "name", href: `#session-${id}` }, text), el("span", { class: "sub" }, sub),
];

const holds = asker(async () => {
  const parameters = new URLSearchParams({ offset: state.offset, limit: pageSize, sort: state.sort, order: state.order });
  const q = byId("holds-q").value.trim(), rule = byId("holds-rule").value;
  if (q) parameters.set("q", q);
  if (rule) parameters.set("rule", rule);
  const page = await get(`holds?${parameters}`);
  if (page.total > 0 && page.items.length === 0 && state.offset > 0) {
    state.offset = Math.floor((page.total - 1) / pageSize) * pageSize;
    holds();
    return;
  }
  sync(byId("holds-rows"), page.items, (h) => `${h.id}-${h.grant}`, holdRow, fillHold);
  put(byId("holds-count"), count(page.total));
  const empty = byId("holds-empty");
  empty.hidden = page.total > 0;
  put(empty, q || rule ? "No hold fits the filter." : "Nothing is held.");
  byId("holds-pager").hidden = page.total <= pageSize;
  put(byId("holds-range"), `${count(state.offset + 1)}–${count(state.offset + page.items.length)} of ${count(page.total)}`);
  const [back, on] = byId("holds-pager").querySelectorAll("button");
  back.disabled = state.offset === 0;
  on.disabled = state.offset + pageSize >= page.total;
});

function holdRow(h) {
  const row = el("tr", {}, el("th", { scope: "row" }, ...nameCell(h.id, h.session, "")), el("td", {}, el("span", { class: "name" }), el("span", { class: "sub" })),
    el("td", { class: "wide" }), el("td", { class: "num" }), el("td", { class: "num wide" }), el("td", { class: "num" }), el("td", { class: "num wide mono" }),
    el("td", { class: "acts" }, el("button", { type: "button", class: "danger" }, "Break")));
  row.querySelector("button").addEventListener("click", () => askToBreak(row.hold, (what) => { announce(what); holds(); }));
  return row;
}

function fillHold(row, h) {
  row.hold = h;
  const [session, holder, took, age, lease, waiting, grant, acts] = row.children;
  session.querySelector(".sub").replaceChildren(h.rule, h.superseded ? el("span", { class: "tag" }, "superseded") : "");
  if (h.superseded) session.querySelector(".tag").before(" ");
  put(holder.children[0], caller(h.holder));
  put(holder.children[1], h.holder.name ? h.holder.client : "");
  put(took, `${h.command || "–"}${h.writes ? `, ${count(h.writes)} written` : ""}`);
  put(age, span(h.age_ms));
  put(lease, h.lease_left_ms == null ? "–" : span(h.lease_left_ms));
  put(waiting, h.waiting ? count(h.waiting) : "–");
  waiting.classList.toggle("hot", h.waiting > 0);
  put(grant, String(h.grant));
  const can = Boolean(state.overview?.can_break);
  acts.hidden = !can;
  acts.firstChild.setAttribute("aria-label", `Break the hold on ${h.session}`);
}

const queues = asker(async () => {
  const page = await get("queues?limit=50");
  put(byId("queues-count"), page.total ? count(page.total) : "");
  byId("queues-empty").hidden = page.total > 0;
  sync(byId("queues-rows"), page.items, (q) => q.id,
    (q) => el("tr", {}, el("th", { scope: "row" }, ...nameCell(q.id, q.session, q.rule)), el("td", {}, el("span", { class: "name" }), el("span", { class: "sub" })),
      el("td", { class: "num hot" }), el("td", { class: "num" }), el("td", { class: "wide" })),
    (row, q) => {
      const [, holder, waiting, longest, first] = row.children;
      put(holder.children[0], q.holder ? caller(q.holder) : "–");
      put(holder.children[1], q.holder?.proxy && q.holder.proxy !== state.overview?.about.name ? `proxy ${q.holder.proxy}` : "");
      put(waiting, count(q.waiting));
      put(longest, span(q.longest_ms));
      put(first, q.first.map(caller).join(", ") + (q.waiting > q.first.length ? " …" : ""));
    });
});

const refusals = asker(async () => {
  const error = byId("refusals-error").value;
  const page = await get(`refusals?limit=${feedSize}${error ? `&error=${encodeURIComponent(error)}` : ""}`);
  put(byId("refusals-count"), page.total ? `last ${count(page.total)}` : "");
  byId("refusals-empty").hidden = page.total > 0;
  const fresh = byId("refusals-rows").childElementCount > 0;
  sync(byId("refusals-rows"), page.items, (r) => r.number,
    (r) => {
      const button = el("button", { type: "button" },
        el("span", {}, tag(r.error), el("span", { class: "name" }, r.session)), el("time", { class: "when", datetime: r.at }), el("span", { class: "what" }));
      button.addEventListener("click", () => { location.hash = `refusal-${r.number}`; });
      return el("li", { class: fresh ? "new" : null }, button);
    },
    (item, r) => {
      put(item.querySelector(".when"), ago(r.at, Date.now() + state.skew));
      put(item.querySelector(".what"), `${r.command} of ${caller(r.who)}: ${r.summary}`);
    });
  for (const r of page.items) offer(byId("refusals-error"), r.error);
});

const hot = asker(async () => {
  const { items } = await get("hot?limit=10");
  byId("hot-empty").hidden = items.length > 0;
  sync(byId("hot-rows"), items, (h) => h.id,
    (h) => el("tr", {}, el("th", { scope: "row" }, ...nameCell(h.id, h.session, h.rule)), el("td", { class: "num" }), el("td", { class: "num" }), el("td", { class: "num" })),
    (row, h) => {
      put(row.children[1], `${count(h.waits)}${h.over ? " +" : ""}`);
      put(row.children[2], h.refusals ? count(h.refusals) : "–");
      put(row.children[3], h.waited_ms ? span(h.waited_ms) : "–");
    });
});

const series = asker(async () => {
  const { points } = await get("series?step=60");
  for (const chart of charts) chart.show(points);
});

const config = asker(async () => {
  const c = await get("config");
  put(byId("config-from"), `${c.file || "no file"}, since ${c.loaded.slice(0, 10)} ${clock(c.loaded)}`);
  const trouble = byId("config-trouble");
  trouble.hidden = !c.failed && !c.restart.length;
  put(trouble, c.failed ? `The file as it is now was not taken over: ${c.failed}` : `Changed in the file, and counts from the next start on: ${c.restart.join(", ")}`);
  sync(byId("config-rules"), c.contents.rules, (r) => r.name,
    () => el("tr", {}, el("th", { scope: "row" }), el("td", { class: "mono" }), el("td", { class: "mono wide" }), el("td"), el("td", { class: "wide" }),
      el("td", { class: "num" }), el("td", { class: "num wide" }), el("td", { class: "num wide" })),
    (row, r) => [r.name, r.prefix || "every key", r.session || "each key its own", r.mode, r.owner, r.wait, r.lease, r.max_hold].forEach((text, i) => put(row.children[i], text)));
  sync(byId("config-options"), c.contents.options, (o) => o.key,
    (o) => el("div", {}, el("dt", {}, o.key), el("dd")),
    (row, o) => { put(row.lastChild, o.value || "–"); row.className = o.default ? "" : "set"; });
  state.loaded = c.loaded;
});

// offer adds a choice that is not there yet.
function offer(select, value) {
  if (![...select.options].some((o) => o.value === value)) select.append(el("option", { value }, value));
}

function show(o) {
  state.overview = o;
  state.heard = Date.now();
  state.skew = new Date(o.at).getTime() - state.heard;
  const { about, now } = o, minute = now.minute, hour = now.hour;
  put(byId("name"), about.name);
  document.title = `${now.waiting ? `(${now.waiting} waiting) ` : ""}${about.name} · fence-proxy`;
  put(byId("facts"), `${about.listen} → ${about.upstream} · locks: ${about.provider} · ${count(about.clients)} clients · up ${span(new Date(o.at) - new Date(about.started))} · ${about.version}`);
  const ready = byId("ready");
  put(ready, about.draining ? "draining" : o.ready ? "ready" : "not ready");
  ready.className = `pill ${about.draining ? "warn" : o.ready ? "good" : "bad"}`;
  const trouble = byId("trouble");
  trouble.hidden = o.ready || about.draining;
  put(trouble, `Clients can't be served: ${o.why_not}`);

  const figure = (id, text, more, colour) => {
    const number = byId(`f-${id}`);
    put(number, text);
    number.className = colour || "";
    put(byId(`f-${id}-more`), more);
  };
  const unlisted = about.holds - now.holding;
  figure("holds", count(Math.max(about.holds, now.holding)), unlisted > 1000 ? `${count(unlisted)} not listed` : `${rate(minute.grants / 60)} grants per second`);
  figure("waiting", count(now.waiting), hour.waits.count ? `${count(hour.waits.count)} waits this hour` : "no waits this hour", now.waiting ? "amber" : "");
  figure("refused", count(hour.fenced + hour.locked), `${count(hour.fenced)} unsafe · ${count(hour.locked)} in vain`, minute.fenced ? "red" : "");
  figure("wait", hour.waits.count ? span(hour.waits.p99_ms) : "–", hour.waits.count ? `median ${span(hour.waits.p50_ms)}, last hour` : "last hour");
  figure("hold", hour.holds.count ? span(hour.holds.p99_ms) : "–", hour.holds.count ? `median ${span(hour.holds.p50_ms)}, last hour` : "last hour");
  figure("commits", rate(minute.commits / 60), `${count(hour.commits)} this hour`);

  for (const rule of about.rules) offer(byId("holds-rule"), rule);
  document.querySelector("th.acts").hidden = !o.can_break;
}

let ticks = 0;
function heard(o) {
  if (state.paused || document.hidden) return;
  show(o);
  holds();
  queues();
  if (ticks % 5 === 0) { hot(); refusals(); }
  if (ticks % 10 === 0) { series(); config(); }
  ticks++;
  tellLive();
}

function tellLive() {
  const quiet = Date.now() - state.heard;
  put(byId("live"), state.paused ? "paused" : !state.heard ? "connecting …" : quiet > 4000 ? `no answer for ${span(quiet)}` : "live");
}

// announce tells those who can't see the page, not more than every ten seconds.
let pending = 0, last = 0, timer = null;
function announce(text) { put(byId("news"), text); }
function announceRefusal(r) {
  pending++;
  if (timer) return;
  timer = setTimeout(() => {
    announce(pending > 1 ? `${pending} commands refused, the last with ${r.error} on ${r.session}` : `${r.error} on ${r.session}: ${r.summary}`);
    pending = 0;
    timer = null;
    last = Date.now();
  }, Math.max(0, last + 10000 - Date.now()));
}

const stream = new EventSource("api/v1/stream");
stream.addEventListener("overview", (e) => heard(JSON.parse(e.data)));
stream.addEventListener("refusal", (e) => {
  if (state.paused) return;
  refusals();
  announceRefusal(JSON.parse(e.data));
});
stream.addEventListener("error", () => {
  tellLive();
  const ready = byId("ready");
  put(ready, "no answer");
  ready.className = "pill bad";
});
setInterval(tellLive, 1000);

byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", state.paused);
  ticks = 0;
  tellLive();
});
byId("holds-filter").addEventListener("submit", (e) => e.preventDefault());
byId("holds-filter").addEventListener("input", () => { state.offset = 0; holds(); });
byId("refusals-error").addEventListener("change", refusals);
for (const button of byId("holds-pager").querySelectorAll("button")) {
  button.addEventListener("click", () => { state.offset = Math.max(0, state.offset + pageSize * button.dataset.go); holds(); });
}
for (const header of document.querySelectorAll("th[data-sort]")) {
  header.querySelector("button").addEventListener("click", () => {
    const first = header.dataset.first, same = state.sort === header.dataset.sort;
    state.order = same ? (state.order === "asc" ? "desc" : "asc") : first;
    state.sort = header.dataset.sort;
    state.offset = 0;
    for (const other of document.querySelectorAll("th[data-sort]")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", state.order === "asc" ? "ascending" : "descending");
    holds();
  });
}
document.addEventListener("visibilitychange", () => { ticks = 0; });
addEventListener("hashchange", follow);
follow();

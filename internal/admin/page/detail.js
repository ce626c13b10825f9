// The dialogs: a refusal's story, a session, and breaking a hold.

import { el, byId, put } from "./dom.js";
import { span, count, precise, caller } from "./format.js";

export async function get(path) {
  const answer = await fetch(`api/v1/${path}`, { headers: { Accept: "application/json" } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

// tag is the first word of an error.
export const tag = (error) => el("span", { class: { LOCKED: "tag vain", OBSERVED: "tag soft" }[error] || "tag" }, error);

const dialog = byId("detail"), title = byId("detail-title"), body = byId("detail-body");

function open(heading, ...content) {
  title.replaceChildren(...heading);
  body.replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  title.focus();
}

dialog.addEventListener("close", () => {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
});
for (const button of document.querySelectorAll("dialog .close")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}

const facts = (...rows) => el("dl", { class: "facts" },
  ...rows.filter(([, value]) => value != null && value !== "").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

const party = (p) => {
  if (!p) return null;
  const where = [p.name && p.client, p.proxy && `proxy ${p.proxy}`, p.grant && `grant ${p.grant}`].filter(Boolean).join(" · ");
  return `${caller(p)}${where ? ` (${where})` : ""}`;
};

// showStory opens the story of a refusal.
export async function showStory(number) {
  try {
    const r = await get(`refusals/${number}`);
    const steps = r.timeline.map((s) => el("li", { class: `${s.role} ${s.kind}` },
      el("time", { datetime: s.at }, s.before_ms > 0 ? `−${span(s.before_ms)}` : precise(s.at)),
      el("span", {}, el("span", { class: "party" }, caller(s.who)), ` ${s.text}`,
        el("span", { class: "sub" }, [s.grant ? `grant ${s.grant}` : "", s.before_ms > 0 ? precise(s.at) : "", s.who.proxy !== r.who.proxy ? `proxy ${s.who.proxy}` : ""].filter(Boolean).join(" · ")))));
    open([tag(r.error), ` ${r.session}`],
      el("div", { class: "tale" }, ...r.story.map((sentence) => el("p", {}, sentence))),
      el("h3", {}, "Timeline"), el("ol", { class: "steps" }, ...steps),
      el("h3", {}, "Facts"),
      facts(["Rule", r.rule], ["Session", r.session + (r.clipped ? " …" : "")], ["Database", String(r.db)], ["Mode", r.mode], ["Command", r.command], ["Refused", party(r.who)],
        ["Reason", r.reason.replaceAll("_", " ")], ["Against it", party(r.other)], ["Its grant", r.grant ? String(r.grant) : null],
        ["Newest grant", r.newest ? String(r.newest) : null], ["At", `${r.at.slice(0, 10)} ${precise(r.at)} UTC`]),
      el("p", {}, link(`#session-${r.id}`, "All that is known of this session")));
  } catch (e) {
    open(["Refusal"], el("p", {}, e.message));
  }
}

const link = (href, text) => el("a", { href }, text);

// showSession opens what is known of a session, here and at the store.
export async function showSession(id) {
  try {
    const s = await get(`sessions/${id}`), r = s.record;
    const turns = s.turns.map((t) => el("tr", {},
      el("th", { scope: "row" }, caller(t.who), el("span", { class: "sub" }, t.who.name ? t.who.client : "")),
      el("td", {}, t.state, el("span", { class: "sub" }, (t.reason || "").replaceAll("_", " "))),
      el("td", {}, t.granted ? precise(t.granted) : "–"), el("td", { class: "wide" }, t.read ? precise(t.read) : "–"),
      el("td", { class: "wide" }, t.wrote ? precise(t.wrote) : "–"), el("td", { class: "num" }, t.grant ? String(t.grant) : "–")));
    open([s.session],
      facts(["Rule", s.rule], ["Database", String(s.db)]),
      el("h3", {}, "At the store, now"),
      r ? facts(["Held by", party(r.holder) || "nobody"], ["Lease left", r.holder ? span(r.lease_left_ms) : null], ["In line", r.waiting ? `${count(r.waiting)}: ${r.waiters.map(party).join(", ")}` : "nobody"],
        ["Newest grant", String(r.grant || "none")], ["Last stored", r.stored_grant ? `grant ${r.stored_grant}, write ${r.stored_seq}` : "nothing"], ["Locks", r.provider]) : el("p", {}, s.record_error),
      el("h3", {}, "Lately, through this proxy"),
      el("table", {}, el("caption", { class: "unseen" }, "Turns, newest first"),
        el("thead", {}, el("tr", {}, ...[["Who"], ["State"], ["Granted"], ["Read", "wide"], ["Wrote", "wide"], ["Grant", "num"]].map(([text, name]) => el("th", { scope: "col", class: name }, text)))),
        el("tbody", {}, ...turns)));
  } catch (e) {
    open(["Session"], el("p", {}, e.message));
  }
}

// follow opens what the address names.
export function follow() {
  const [, kind, id] = location.hash.match(/^#(refusal|session)-(\w+)$/) || [];
  if (kind === "refusal") showStory(id);
  if (kind === "session") showSession(id);
}

const breaking = byId("break"), form = breaking.querySelector("form"), token = byId("break-token"), error = byId("break-error");
let hold = null;

// askToBreak opens the question whether a hold is to be broken. told hears what came of it.
export function askToBreak(which, told) {
  hold = { which, told };
  byId("break-what").replaceChildren(el("strong", {}, which.session), ` of rule ${which.rule}, held by ${party(which.holder)} for ${span(which.age_ms)}.`);
  put(error, "");
  breaking.showModal();
  token.focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  put(error, "");
  try {
    const answer = await fetch("api/v1/break", {
      method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token.value}` },
      body: JSON.stringify({ id: hold.which.id, grant: hold.which.grant }),
    });
    const result = await answer.json();
    if (!answer.ok) throw new Error(result.error);
    breaking.close();
    hold.told(result.broken ? `The hold on ${hold.which.session} was broken.` : `Nobody held ${hold.which.session} any more.`);
  } catch (e) {
    put(error, e.message);
    token.focus();
  } finally {
    button.disabled = false;
  }
});

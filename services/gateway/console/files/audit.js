// The audit: every transition of the log, as it is asked for, and as a file.
import { ask, send } from "./api.js";
import { command, element, fill, put } from "./dom.js";
import { kind, moment } from "./format.js";
import { Page, field, table } from "./admin.js";

const types = ["run", "fork", "started", "start_failed", "suspend", "suspended", "suspend_aborted", "suspend_failed", "resume", "resumed", "resume_failed", "checkpoint", "checkpointed", "exited", "lost", "kill", "moved", "taken_over", "idle_rule", "remove", "removed", "shredded"];

// wanted is what was asked for last.
const wanted = { session: "", actor: "", type: "", from: "", to: "" };

function query(more = {}) {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(wanted)) {
    if (!value) continue;
    q.set(key, key === "from" || key === "to" ? new Date(value).toISOString() : key === "session" ? value.replace("/", ".") : value);
  }
  for (const [key, value] of Object.entries(more)) q.set(key, value);
  const text = q.toString();
  return `/transitions${text ? `?${text}` : ""}`;
}

export function showAudit(main, live, { me }) {
  const page = new Page(main, "Audit", "Every transition of every session that this login may see: who made it, when and why.");
  const input = (key, properties) => {
    const e = element("input", { value: wanted[key], autocomplete: "off", spellcheck: false, ...properties });
    e.oninput = () => { wanted[key] = e.value.trim(); };
    return e;
  };
  const type = element("select", {}, ["", ...types].map((t) => element("option", { value: t, textContent: t || "all", selected: t === wanted.type })));
  type.onchange = () => {
    wanted.type = type.value;
    read();
  };
  const names = element("datalist", { id: "audit-sessions" }, [...live.sessions.keys()].slice(0, 500).map((n) => element("option", { value: n })));
  const session = input("session", { type: "search" });
  session.setAttribute("list", names.id);
  const form = element("form", { className: "filters", role: "search" }, names, field("Session", session), field("Actor", input("actor", { type: "search" })), field("Kind", type),
    field("From", input("from", { type: "datetime-local" })), field("To", input("to", { type: "datetime-local" })), element("button", { textContent: "Show" }));
  form.onsubmit = (e) => {
    e.preventDefault();
    read();
  };
  const save = (format, text) => {
    const b = element("button", { type: "button", textContent: text });
    b.onclick = () => page.act(text, () => download(format));
    return b;
  };
  const line = element("p");
  page.root.append(form, element("p", { className: "choice" }, save("jsonl", "Export JSONL"), " ", save("csv", "Export CSV")), line);
  const found = page.section("Transitions");
  const read = () => {
    fill(line, query(), () => command(`curl -H "Authorization: Bearer $TOKEN" "${location.origin}/api/v1${query({ format: "jsonl" })}"`));
    return page.reads(found, (signal) => ask("GET", query(), undefined, signal), (answer) => transitions(answer));
  };
  read();
  if (me?.role === "operator" || !me?.role) checks(page);
  page.find = () => session.focus();
  return page;
}

function transitions({ transitions: all, found, moved }) {
  const any = Object.values(wanted).some(Boolean);
  if (all.length === 0) return any ? element("p", { textContent: "No transition matches." }) : [element("p", { textContent: "Nothing has happened yet. The first transition is that of the first session:" }), command("diapause run --name work --tty -- bash")];
  const row = ({ name, host, transition: t }) => {
    const state = element("span", { className: "is" }, element("span", { className: "dot", "aria-hidden": "true" }), element("span", { textContent: t.state }));
    state.dataset.kind = kind(t.state);
    return [element("time", { dateTime: t.at, textContent: moment(t.at) }), element("a", { href: `#/s/${encodeURIComponent(name)}`, textContent: name }), t.type, state, t.reason, [t.actor, t.note && ` (${t.note})`].filter(Boolean).join(""), host];
  };
  return [element("p", { className: "why", role: "status", textContent: `${found > all.length ? `The last ${all.length} of ${found}` : found} ${found === 1 ? "transition" : "transitions"}.${moved ? " Older ones were moved to the store: the history of a session has them." : ""}` }),
    table("Transitions", ["At", "Session", "Kind", "State", "Why", "By", "Host"], all.map(row))];
}

// download gives the browser a file. The request has headers, which a link has not.
async function download(format) {
  const r = await send("GET", query({ format }), {});
  const link = element("a", { href: URL.createObjectURL(await r.blob()), download: `transitions.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function checks(page) {
  const body = page.section("Is the log whole?");
  const b = element("button", { type: "button", textContent: "Compare all records with the log" });
  const said = element("p", { role: "status" });
  const problems = element("ul");
  b.onclick = async () => {
    b.disabled = true;
    put(said, "Reading…");
    try {
      const a = await ask("GET", "/audit", undefined, page.signal);
      put(said, a.problems.length ? `${a.problems.length} problems in ${a.transitions} transitions` : `Every record is what its ${a.transitions} transitions make of it; ${a.sessions} sessions.`);
      problems.replaceChildren(...a.problems.slice(0, 100).map((p) => element("li", { textContent: p })));
    } catch (e) {
      put(said, `${e.text ?? e.message}.`);
    }
    b.disabled = false;
  };
  body.replaceChildren(element("p", { className: "choice" }, b, " ", command("diapause audit --verify")), said, problems);
}

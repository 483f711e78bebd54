// What a session's page reads besides the session: its history, snapshots, policy and ports.
import { ask } from "./api.js";
import { command, element, fill, kept } from "./dom.js";
import { inPath, kind, moment, said, span } from "./format.js";
import { evidenceOf, lifeOf } from "./timeline.js";

const firstOf = 50; // transitions that are shown at first

// reads shows what an answer has, or why there is none.
export async function reads(body, path, signal, show, more = () => null) {
  try {
    const answer = await ask("GET", path, undefined, signal);
    kept(body, () => fill(body, [answer, more()], () => show(answer)));
  } catch (e) {
    if (e.name !== "AbortError") fill(body, [e.text, Date.now()], () => element("p", { className: "failed", textContent: `${e.text ?? e.message}.` }));
  }
}

export function historyOf(body, path, name, signal) {
  return reads(body, `${path}/history`, signal, (all) => {
    const newest = [...all].reverse();
    const list = element("ol", { className: "timeline" }, newest.slice(0, firstOf).map(transition));
    const rest = newest.slice(firstOf);
    const more = rest.length > 0 && element("button", { type: "button", textContent: `Show ${rest.length} more` });
    if (more) {
      more.onclick = () => {
        list.append(...rest.map(transition));
        more.remove();
      };
    }
    return [lifeOf(all), list, more, element("p", {}, command(`diapause history ${name}`))];
  });
}

function transition(t, i, all) {
  const e = t.evidence;
  const facts = [
    e?.activity && `by ${e.activity}`,
    e?.idle_ms && `idle for ${span(e.idle_ms / 1000)}${e.grace_ms ? ` of ${span(e.grace_ms / 1000)}` : ""}`,
    e?.last && `last use: ${e.last}${e.last_at ? `, ${moment(e.last_at)}` : ""}`,
    (t.stages ?? []).length > 0 && t.stages.filter((s) => s.part).map((s) => `${s.name} ${s.ms} ms`).join(", "),
    ...(t.joined ?? []).map((j) => `joined by ${j.note || j.actor}`),
  ].filter(Boolean);
  const item = element("li", {}, element("span", { className: "dot", "aria-hidden": "true" }), element("time", { dateTime: t.at, textContent: moment(t.at) }), " ",
    element("b", { textContent: t.state }), " ", element("span", { textContent: [t.type, t.reason].filter(Boolean).join(": ") }), " ",
    element("span", { className: "why", textContent: [t.note || t.actor, ...facts].join(" · ") }), evidenceOf(t));
  item.dataset.kind = kind(t.state);
  const before = all?.[i + 1];
  if (before && before.state !== t.state) item.classList.add("turn");
  return item;
}

export function policyOf(body, name, signal) {
  return reads(body, `/policies/session:${inPath(name)}`, signal, (p) => [
    element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": "Policy" }, element("table", {}, element("thead", {}, element("tr", {}, ["Part", "Holds", "From"].map((c) => element("th", { scope: "col", textContent: c })))),
      element("tbody", {}, Object.entries(p.effective ?? {}).map(([key, value]) => element("tr", {}, element("th", { scope: "row", textContent: key }), element("td", { textContent: said(value) }), element("td", { textContent: p.origins?.[key] ?? "" })))))),
    element("p", {}, command(`diapause policy get session:${name}`))]);
}

// portsOf shows the ports at which a session takes connections, and who may reach them.
export function portsOf(path, s) {
  const exposed = new Map((s.exposed ?? []).map((e) => [e.port, e.access]));
  const ports = [...new Set([...(s.listens ?? []), ...exposed.keys()])].sort((a, b) => a - b);
  if (ports.length === 0) return element("p", { textContent: s.state === "running" ? "It takes no connections." : "Its ports are shown while it runs." });
  return [element("ul", { className: "ports" }, ports.map((port) => {
    const link = element("a", { textContent: String(port), target: "_blank", rel: "noopener" });
    ask("GET", `${path}/ports/${port}`).then(({ url }) => { if (url) link.href = url; }, () => {}); // who may not reach it gets no link
    return element("li", {}, link, " ", element("span", { className: "why", textContent: exposed.get(port) ?? "private" }));
  })), element("p", { className: "why", textContent: "To open a port is to use the session: it is resumed for that." })];
}

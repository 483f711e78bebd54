// The life of a session, of its history: when it ran and when it slept, and what each transition was decided on.
import { now as there } from "./clock.js";
import { element } from "./dom.js";
import { kind, moment, span } from "./format.js";
import { named, svg } from "./svg.js";

const wide = 1000; // units across
const least = 3; // units that an interval has at least: a session may sleep for weeks and run for seconds
const mostParts = 300; // of the bar

// intervals gives how long a session was in one state after another: [{kind, state, from, to, by}], times in ms.
export function intervals(history, now = there()) {
  const all = [];
  for (const t of history) {
    const at = Date.parse(t.at);
    const last = all.at(-1);
    if (last?.kind === kind(t.state)) continue;
    if (last) last.to = at;
    all.push({ kind: kind(t.state), state: t.state, from: at, to: now, by: t });
  }
  if (all.length > 0) all.at(-1).to = Math.max(all.at(-1).from, ["over", "failed"].includes(all.at(-1).kind) ? all.at(-1).from : now);
  return all.filter((i) => i.to >= i.from); // a clock may have jumped back
}

// lifeOf draws the intervals, and says how much of them it ran and slept.
export function lifeOf(history) {
  const all = intervals(history);
  if (all.length < 2) return null;
  const parts = all.slice(-mostParts);
  const sum = (k) => all.filter((i) => i.kind === k).reduce((n, i) => n + (i.to - i.from) / 1000, 0);
  const total = parts.reduce((n, i) => n + (i.to - i.from), 0) || 1;
  const shares = parts.map((i) => Math.max(least, (i.to - i.from) / total * wide));
  const scale = wide / shares.reduce((a, b) => a + b, 0);
  let x = 0;
  const bars = parts.map((i, n) => {
    const w = shares[n] * scale;
    const bar = named(`${i.kind}: ${moment(i.from)}, for ${span((i.to - i.from) / 1000)}${i.by.reason ? `: ${i.by.reason}` : ""}`, "rect", { x: x.toFixed(2), y: 0, width: w.toFixed(2), height: 20, class: `in-${i.kind}` });
    x += w;
    return bar;
  });
  const text = `${all.length > parts.length ? `its last ${parts.length} turns: ` : ""}ran ${span(sum("running"))}, paused ${span(sum("paused"))} since ${moment(all[0].from)}`;
  return element("figure", { className: "life" }, svg("svg", { viewBox: `0 0 ${wide} 20`, preserveAspectRatio: "none", role: "img", "aria-label": `Its life: ${text}` }, bars),
    element("figcaption", { className: "why", textContent: text }));
}

// wokenBy says what had a session resumed.
function wokenBy(t) {
  if (t.state !== "resuming" || !["resume", "ensure"].includes(t.type) && !t.evidence?.activity) return "";
  return t.evidence?.activity ? `activity ${t.evidence.activity}` : [t.note || t.actor, t.reason].filter(Boolean).join(": ");
}

// evidenceOf shows all that a transition was decided on; null if there is nothing but who made it.
export function evidenceOf(t) {
  const e = t.evidence ?? {};
  const facts = {
    "Woken by": wokenBy(t), Actor: t.actor, "Says of itself": t.note, Activity: e.activity, "Last use": e.last ? `${e.last}${e.last_at ? `, ${moment(e.last_at)}` : ""}` : "",
    Idle: e.idle_ms ? `${span(e.idle_ms / 1000)}${e.grace_ms ? ` of ${span(e.grace_ms / 1000)}` : ""}` : "", "Activity heard": e.activity_seq ? `up to message ${e.activity_seq}` : "",
    Joined: (t.joined ?? []).map((j) => `${j.note || j.actor}${j.reason ? `: ${j.reason}` : ""}, ${moment(j.at)}`).join("; "),
    Stages: (t.stages ?? []).map((s) => `${s.name} ${s.ms} ms`).join(", "), Operation: t.op, Version: String(t.version),
  };
  const dl = element("dl", {});
  const details = element("details", {}, element("summary", { textContent: "Evidence", "aria-label": `Evidence of ${t.type}, version ${t.version}` }), dl);
  details.show = details.ontoggle = () => {
    if (dl.firstChild) return;
    dl.append(...Object.entries(facts).filter(([, v]) => v).map(([k, v]) => element("div", {}, element("dt", { textContent: k }), element("dd", { textContent: v }))));
  };
  return details;
}

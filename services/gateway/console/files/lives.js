// Draws when sessions would have slept under two policies, as a simulation says.
import { element } from "./dom.js";
import { moment, number } from "./format.js";
import { named, svg } from "./svg.js";

const wide = 1000; // units across
const least = 2; // units that a nap has at least

// livesOf draws the sessions of a simulation, each with two bars over the same time.
export function livesOf(s) {
  if (!s.lives?.length) return [];
  const [from, to] = [Date.parse(s.from), Date.parse(s.to)];
  const x = (at) => Math.min(wide, Math.max(0, (Date.parse(at) - from) / (to - from || 1) * wide));
  return [element("h3", { textContent: "When each session would have slept" }),
    element("p", { className: "why" }, "Above the policy that holds, below this one; ", element("span", { className: "key wrong", "aria-hidden": "true" }), "red: woken again within 2 minutes."),
    element("ul", { className: "lives" }, s.lives.map((l) => lifeOf(l, x))),
    element("div", { className: "ends why" }, element("span", { textContent: moment(s.from) }), element("span", { textContent: moment(s.to) })),
    s.omitted > 0 && element("p", { className: "why", textContent: `${s.omitted} more sessions, for which the policies differ less, aren't drawn.` })];
}

function said(naps) {
  const n = naps.naps.length + (naps.omitted ?? 0);
  return `${n} ${n === 1 ? "sleep" : "sleeps"}, ${number(naps.saved_gib_hours)} GiB h saved${naps.wrong ? `, ${naps.wrong} woken wrongly` : ""}`;
}

function lifeOf(l, x) {
  const lane = (naps, y, kind) => [svg("rect", { x: x(l.from), y, width: Math.max(least, x(l.to) - x(l.from)), height: 10, class: "awake" }),
    ...naps.naps.map((n) => named(`${kind === "now" ? "holds" : "this one"}: asleep from ${moment(n.from)} to ${moment(n.to)}${n.wrong ? ", woken wrongly" : ""}`, "rect",
      { x: x(n.from).toFixed(2), y, width: Math.max(least, x(n.to) - x(n.from)).toFixed(2), height: 10, class: n.wrong ? "wrong" : kind }))];
  const text = `holds: ${said(l.now)}; this one: ${said(l.would)}`;
  return element("li", {}, element("a", { href: `#/s/${encodeURIComponent(l.name)}`, textContent: l.name }), " ", element("span", { className: "why", textContent: text }),
    svg("svg", { viewBox: `0 0 ${wide} 22`, preserveAspectRatio: "none", role: "img", "aria-label": `${l.name}: ${text}` }, lane(l.now, 0, "now"), lane(l.would, 12, "would")));
}

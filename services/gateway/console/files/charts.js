// Draws what a session's snapshots took. A session has as many points as it has snapshots, a few dozen: an SVG of our own shows
// them, and a library for millions of points would be more than the rest of the page.
import { element } from "./dom.js";
import { bytes, moment } from "./format.js";
import { named, svg } from "./svg.js";

const width = 600;
const height = 120;
const most = 500; // points

// chart draws values over time: [{at, value, text}].
function chart(title, points, line) {
  const shown = points.slice(-most);
  const [from, to] = [shown[0].at, shown.at(-1).at];
  const top = Math.max(1, ...shown.map((p) => p.value));
  const x = (p) => (to > from ? 8 + (p.at - from) / (to - from) * (width - 16) : width / 2);
  const y = (p) => height - 8 - p.value / top * (height - 16);
  const spots = shown.map((p) => named(p.text, "circle", { cx: x(p).toFixed(1), cy: y(p).toFixed(1), r: 4 }));
  const path = line && svg("polyline", { points: shown.map((p) => `${x(p).toFixed(1)},${y(p).toFixed(1)}`).join(" ") });
  const said = `${title}: ${bytes(shown[0].value)} at first, ${bytes(shown.at(-1).value)} at last, ${bytes(top)} at most`;
  return element("figure", { className: "chart" }, element("figcaption", {}, element("b", { textContent: title }), " ", element("span", { className: "why", textContent: `up to ${bytes(top)}` })),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, svg("line", { x1: 0, x2: width, y1: height - 8, y2: height - 8 }), path, spots));
}

// chartsOf draws the snapshots of a session, which come in the order of time; nothing of fewer than two.
export function chartsOf(snapshots) {
  const all = snapshots.filter((s) => !s.error);
  if (all.length < 2) return null;
  let stored = 0;
  const sums = all.map((s) => ({ s, sum: stored += s.stored_bytes }));
  return element("div", { className: "charts" },
    chart("Memory and files when it was taken", all.map((s) => ({ at: Date.parse(s.at), value: s.logical_bytes, text: `${s.id}, ${moment(s.at)}: ${bytes(s.logical_bytes)}` })), true),
    chart("Stored, of all snapshots up to then", sums.map(({ s, sum }) => ({ at: Date.parse(s.at), value: sum, text: `${s.id}, ${moment(s.at)}: ${bytes(s.stored_bytes)} more` })), true));
}

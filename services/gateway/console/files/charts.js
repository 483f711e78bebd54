// Draws what a session's snapshots took, and what was used over days. There are a few dozen points: an SVG of our own shows
// them, and a library for millions of points would be more than the rest of the page.
import { element } from "./dom.js";
import { bytes, day, moment } from "./format.js";
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

// key names the colours of a chart.
export function key(series) {
  return element("p", { className: "why" }, series.map((s, i) => [i > 0 && ", ", element("span", { className: `key ${s.kind}`, "aria-hidden": "true" }), s.name]).flat());
}

// overDays draws a bar for each day, of parts that lie on each other: days are [{at, …}], series [{name, kind, of(day)}], and say writes a value.
export function overDays(title, days, series, say) {
  const top = Math.max(...days.map((d) => series.reduce((n, s) => n + s.of(d), 0)));
  const sum = (s) => days.reduce((n, d) => n + s.of(d), 0);
  const wide = width / days.length;
  const gap = Math.min(4, wide / 4);
  const bars = days.map((d, i) => {
    const text = `${day(d.at)}: ${series.map((s) => `${s.name} ${say(s.of(d))}`).join(", ")}`;
    let y = height;
    return series.map((s) => {
      const high = top > 0 ? s.of(d) / top * (height - 8) : 0;
      if (high === 0) return null;
      y -= high;
      return named(text, "rect", { x: (i * wide + gap / 2).toFixed(2), y: y.toFixed(2), width: (wide - gap).toFixed(2), height: high.toFixed(2), class: s.kind });
    });
  });
  const said = `${title}: ${series.map((s) => `${s.name} ${say(s.last ? s.of(days.at(-1)) : sum(s))}`).join(", ")}; up to ${say(top)} in a day`;
  return element("figure", { className: "chart" }, element("figcaption", {}, element("b", { textContent: title }), " ", element("span", { className: "why", textContent: `up to ${say(top)}` }), key(series)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": said }, svg("line", { x1: 0, x2: width, y1: height, y2: height }), bars.flat()),
    element("div", { className: "ends why" }, element("span", { textContent: day(days[0].at) }), element("span", { textContent: day(days.at(-1).at) })));
}

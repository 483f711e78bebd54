// What the pages that aren't about one session have in common.
import { element, fill, kept, put } from "./dom.js";
import { svg } from "./svg.js";

// Page has a heading, sections and what is read for them. What was read for a page that is gone isn't shown.
export class Page {
  #ending = new AbortController();
  #timers = [];

  constructor(main, title, about) {
    this.title = title;
    this.outcome = element("p", { className: "outcome", role: "status" });
    this.root = element("article", { className: "session admin" }, element("h1", { textContent: title }), about && element("p", { className: "why", textContent: about }), this.outcome);
    main.replaceChildren(this.root);
  }

  get signal() {
    return this.#ending.signal;
  }

  end() {
    this.#ending.abort();
    for (const t of this.#timers) clearInterval(t);
  }

  section(title) {
    const body = element("div", { className: "body" }, element("p", { className: "why", textContent: "Loading…" }));
    const root = element("section", { className: "part", "aria-label": title }, element("h2", { textContent: title }), body);
    this.root.append(root);
    return body;
  }

  // reads shows in a body what an answer has, or in one sentence why there is none.
  async reads(body, get, show) {
    try {
      const answer = await get(this.signal);
      kept(body, () => fill(body, answer, () => show(answer)));
    } catch (e) {
      if (this.signal.aborted) return;
      fill(body, [e.text ?? e.message], () => element("p", { className: e.status === 403 ? "note" : "failed", textContent: refusal(e) }));
    }
  }

  // every calls fn now, and then again while the page is seen.
  every(ms, fn) {
    fn();
    this.#timers.push(setInterval(() => document.hidden || fn(), ms));
  }

  // act does something, and says what came of it.
  async act(what, fn) {
    put(this.outcome, `${what}…`);
    this.outcome.className = "outcome";
    try {
      await fn();
      put(this.outcome, `${what}: done.`);
      return true;
    } catch (e) {
      if (this.signal.aborted) return false;
      this.outcome.className = "outcome failed";
      put(this.outcome, `${what}: ${e.text ?? e.message}.`);
      return false;
    }
  }
}

function refusal(e) {
  return e.status === 403 ? "The role of this login may not see this; a login link with the role operator shows it." : `${e.text ?? e.message}.`;
}

// table shows rows: lists of texts and nodes, the first of which heads its row.
export function table(name, columns, rows) {
  const cell = (c, i) => {
    const e = i === 0 ? element("th", { scope: "row" }) : element("td");
    e.append(...[c].flat().map((one) => (one instanceof Node ? one : element("span", { textContent: one ?? "" }))));
    return e;
  };
  return element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": name }, element("table", {},
    element("thead", {}, element("tr", {}, columns.map((c) => element("th", { scope: "col", textContent: c })))),
    element("tbody", {}, rows.map((r) => element("tr", {}, r.map(cell))))));
}

// field is an input with its label.
export function field(text, input) {
  return element("label", { className: "field" }, element("span", { textContent: text }), input);
}

// bars draws pairs of numbers, each pair by its own measure: rows are [what, now, would, unit].
export function bars(title, rows) {
  const bar = (n, most, kind, unit) => element("div", { className: "bar-line" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none" }, svg("rect", { x: 0, y: 0, width: Math.max(0.5, 100 * n / most), height: 10, class: kind })), element("span", { textContent: `${n} ${unit}` }));
  return element("figure", { className: "chart pairs", role: "img", "aria-label": title }, rows.map(([what, now, would, unit]) => {
    const most = Math.max(now, would) || 1;
    return element("div", { className: "pair" }, element("span", { textContent: what }), element("div", {}, bar(now, most, "now", unit), bar(would, most, "would", unit)));
  }));
}

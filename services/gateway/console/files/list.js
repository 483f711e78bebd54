// The list of sessions. Of 10,000 only the rows that are seen are in the page.
import { Selection, selecting } from "./bulk.js";
import { command, element, fill, put } from "./dom.js";
import { bytes, idle, kind, labels, order, since, span, word } from "./format.js";

const refreshEvery = 5_000;
const refreshAtMost = 20; // of the rows that are seen
const spare = 6; // rows beyond those that are seen

// What is in the archive is shown on demand alone.
const groups = [
  ["", "All", (s) => !s.archived],
  ["running", "Running", (s) => kind(s.state) === "running"],
  ["paused", "Paused", (s) => kind(s.state) === "paused" && !s.archived],
  ["changing", "Changing", (s) => kind(s.state) === "changing"],
  ["failed", "Failed", (s) => (s.state === "failed" || s.failure) && !s.archived],
  ["over", "Exited", (s) => kind(s.state) === "over" && !s.archived],
  ["archived", "Archived", (s) => s.archived],
];

const columns = ["State", "Session", "Idle", "Memory", "Stored", "Class", "Host", "Labels"];

// wanted is what the list was when it was shown last: its filter, how far it was scrolled, and which session was opened.
const wanted = { text: "", group: "", top: 0, opened: "" };

// matches reports whether a session has all words of a text, in what the list shows of it.
export function matches(s, words) {
  const text = [s.name, s.program, s.class, s.host, labels(s), word(s), s.pauseReason].join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

export const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

export function showList(main, live, { me } = {}) {
  const view = new List(live, me);
  main.replaceChildren(view.root);
  return view.begin();
}

class List {
  #live;
  #all = null; // in order; null when it has to be made
  #known = new Set(); // their names
  #rows = []; // that the filter leaves
  #shown = new Map(); // elements, by name
  #due = 0;

  #selection;

  constructor(live, me) {
    this.#live = live;
    this.#selection = new Selection(live, me, () => this.#marks());
    this.filter = element("input", { type: "search", id: "filter", placeholder: "Filter: name, label, host…", autocomplete: "off", spellcheck: false, value: wanted.text, "aria-label": "Filter sessions", "aria-keyshortcuts": "/" });
    this.filter.oninput = () => {
      wanted.text = this.filter.value;
      this.scroller.scrollTop = 0;
      this.#draw();
    };
    this.filter.onkeydown = (e) => {
      if (e.key === "ArrowDown") this.#focus(0, e);
      if (e.key === "Escape" && this.filter.value) {
        this.filter.value = "";
        this.filter.oninput();
      }
    };
    this.chips = groups.map(([key, name]) => {
      const count = element("span", { className: "count" });
      const b = element("button", { type: "button", className: "chip", "aria-pressed": String(wanted.group === key) }, name, " ", count);
      b.onclick = () => {
        wanted.group = key;
        for (const [i, chip] of this.chips.entries()) chip.button.setAttribute("aria-pressed", String(groups[i][0] === key));
        this.#draw();
      };
      return { button: b, count };
    });
    this.head = element("div", { role: "row", className: "row head" }, columns.map((c) => element("span", { role: "columnheader", textContent: c })));
    this.all = element("input", { type: "checkbox", className: "select", "aria-label": "Select all that are shown" });
    this.all.onchange = () => this.#selection.set(this.#rows.map((s) => s.name), this.all.checked);
    this.body = element("div", { role: "rowgroup", className: "rows" });
    this.table = element("div", { role: "table", className: "table", "aria-label": "Sessions" }, element("div", { role: "rowgroup" }, this.head), this.body);
    this.scroller = element("div", { className: "scroller" }, this.table);
    this.note = element("div", { className: "note", role: "status" });
    this.root = element("section", { className: "list" }, element("h1", { className: "unseen", textContent: "Sessions" }),
      element("div", { className: "bar" }, this.filter, element("div", { className: "chips", role: "group", "aria-label": "States" }, this.chips.map((c) => c.button)), element("label", {}, this.all, " All")), this.#selection.root, this.#selection.outcome, this.note, this.scroller);
    this.scroller.addEventListener("scroll", () => {
      wanted.top = this.scroller.scrollTop;
      this.#place();
    });
    this.body.onkeydown = (e) => this.#key(e);
  }

  begin() {
    const unwatch = this.#live.watch((name) => {
      if (name === null || this.#live.sessions.has(name) !== this.#known.has(name)) this.#all = null;
      this.#soon();
    });
    const sized = new ResizeObserver(() => this.#place());
    sized.observe(this.scroller);
    const ticking = setInterval(() => this.#count(), 1_000);
    const refreshing = setInterval(() => this.#refresh(), refreshEvery);
    this.#draw();
    this.scroller.scrollTop = wanted.top;
    this.#place();
    return {
      end: () => {
        unwatch();
        sized.disconnect();
        clearInterval(ticking);
        clearInterval(refreshing);
        cancelAnimationFrame(this.#due);
        this.#selection.end();
      },
      find: () => this.filter.focus(),
      back: () => this.#back(),
      title: "Sessions",
    };
  }

  #soon() {
    if (!this.#due) this.#due = requestAnimationFrame(() => { this.#due = 0; this.#draw(); });
  }

  #draw() {
    const { sessions, loaded } = this.#live;
    if (this.#all) {
      this.#all = this.#all.map((s) => sessions.get(s.name));
    } else {
      this.#all = [...sessions.values()].sort(order);
      this.#known = new Set(sessions.keys());
    }
    const words = wordsOf(wanted.text);
    const found = words.length ? this.#all.filter((s) => matches(s, words)) : this.#all;
    for (const [i, chip] of this.chips.entries()) put(chip.count, String(found.filter(groups[i][2]).length));
    const of = groups.find(([key]) => key === wanted.group)[2];
    this.#rows = found.filter(of);
    this.#selection.show(this.#rows);
    this.table.setAttribute("aria-rowcount", this.#rows.length + 1);
    const empty = loaded && sessions.size === 0;
    this.scroller.hidden = this.#rows.length === 0;
    fill(this.note, [loaded, empty, this.#rows.length === 0, this.#live.problem?.text], () => {
      if (this.#rows.length > 0) return [];
      if (!loaded) return [element("p", { textContent: this.#live.problem ? `The sessions can't be read: ${this.#live.problem.text ?? this.#live.problem.message}.` : "Loading…" })];
      if (!empty) return [element("p", { textContent: "No session matches." })];
      return [element("h2", { textContent: "No sessions yet" }), element("p", { textContent: "Start one in a terminal of this machine, and it is here at once:" }),
        element("p", {}, command("diapause run --name work --tty -- bash")), element("p", { textContent: "Leave it with Ctrl-] and it is paused when it isn't used; to come back:" }),
        element("p", {}, command("diapause attach work"))];
    });
    this.#marks();
  }

  // place has the rows that are seen in the page, each with what is known now.
  #place() {
    const height = this.#height();
    this.body.style.height = `${this.#rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - spare);
    const last = Math.min(this.#rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / height) + spare);
    const places = new Map();
    for (let i = first; i < last; i++) places.set(this.#rows[i].name, i);
    const lost = this.#keepFocus(places);
    for (const [name, row] of this.#shown) {
      if (!places.has(name)) {
        row.root.remove();
        this.#shown.delete(name);
      }
    }
    // In the order of the list, which is that of the Tab key and of screen readers.
    let at = this.body.firstElementChild;
    for (const [name, i] of [...places].sort(([, a], [, b]) => a - b)) {
      const s = this.#rows[i];
      let row = this.#shown.get(name);
      if (!row) {
        row = makeRow(s, (name, range) => this.#selection.toggle(name, this.#rows, range));
        this.#shown.set(name, row);
      }
      if (row.root === at) at = at.nextElementSibling;
      else this.body.insertBefore(row.root, at);
      row.root.setAttribute("aria-rowindex", i + 2);
      row.root.style.transform = `translateY(${i * height}px)`;
      row.show(s);
      row.mark(this.#selection.has(name));
    }
    if (lost >= 0) this.#focus(lost);
  }

  // keepFocus keeps the row that has the focus in the page, also where it isn't seen. If its session is gone it gives the
  // place of the one that has the focus next, -1 else.
  #keepFocus(places) {
    const row = document.activeElement?.closest?.(".rows .row");
    const name = row && [...this.#shown].find(([, r]) => r.root === row)?.[0];
    if (!name || places.has(name)) return -1;
    const i = this.#rows.findIndex((s) => s.name === name);
    if (i < 0) return Number(row.getAttribute("aria-rowindex")) - 2;
    places.set(name, i);
    return -1;
  }

  // back has the session in focus that was opened from the list, if it is seen still.
  #back() {
    const row = this.#shown.get(wanted.opened);
    row?.link.focus({ preventScroll: true });
    return Boolean(row);
  }

  // marks shows which rows are selected.
  #marks() {
    for (const [name, row] of this.#shown) row.mark(this.#selection.has(name));
    const n = this.#selection.size;
    this.all.checked = n > 0 && this.#rows.every((s) => this.#selection.has(s.name));
    this.all.indeterminate = n > 0 && !this.all.checked;
    this.#place();
  }

  #height() {
    return parseFloat(getComputedStyle(this.table).getPropertyValue("--row")) || 40;
  }

  #count() {
    for (const row of this.#shown.values()) row.count();
  }

  // refresh reads what changes without a transition: how idle a session is, and its memory.
  #refresh() {
    if (document.hidden || !this.#live.live) return;
    let n = 0;
    for (const row of this.#shown.values()) {
      if (row.session.state === "running" && n++ < refreshAtMost) this.#live.refresh(row.session.name);
    }
  }

  #key(e) {
    const at = this.#rows.findIndex((s) => this.#shown.get(s.name)?.link === document.activeElement);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.#height()) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.#rows.length - 1 }[e.key];
    if (at >= 0 && (e.key === " " || e.shiftKey && ["ArrowDown", "ArrowUp"].includes(e.key))) {
      e.preventDefault();
      const next = Math.min(Math.max(0, to ?? at), this.#rows.length - 1);
      if (e.key === " ") this.#selection.toggle(this.#rows[at].name, this.#rows);
      else this.#selection.set([this.#rows[at].name, this.#rows[next].name], true, true);
      if (e.key !== " ") this.#focus(next, e);
      return;
    }
    if (at < 0 || to === undefined) return;
    if (e.key === "ArrowUp" && at === 0) {
      e.preventDefault();
      this.filter.focus();
      return;
    }
    this.#focus(to, e);
  }

  #focus(index, e) {
    const i = Math.min(Math.max(0, index), this.#rows.length - 1);
    e?.preventDefault();
    if (i < 0) {
      this.filter.focus();
      return;
    }
    const height = this.#height();
    const top = i * height;
    const { scrollTop, clientHeight } = this.scroller;
    const headHeight = this.head.offsetHeight;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + height + headHeight > scrollTop + clientHeight) this.scroller.scrollTop = top + height + headHeight - clientHeight;
    this.#place();
    this.#shown.get(this.#rows[i].name)?.link.focus({ preventScroll: true });
  }
}

// makeRow makes the row of a session.
function makeRow({ name }, toggle) {
  const box = selecting(name, toggle);
  const dot = element("span", { className: "dot", "aria-hidden": "true" });
  const state = element("span", { className: "word" });
  const why = element("span", { className: "why" });
  const link = element("a", { textContent: name, href: `#/s/${encodeURIComponent(name)}`, onclick: () => { wanted.opened = name; } });
  const program = element("span", { className: "why" });
  const cells = Object.fromEntries(columns.slice(2).map((c) => [c, element("span", { role: "cell", className: `cell ${c.toLowerCase()}` })]));
  const root = element("div", { role: "row", className: "row" }, element("span", { role: "cell", className: "cell state" }, box, dot, state, why), element("span", { role: "cell", className: "cell name" }, link, program), Object.values(cells));
  const row = {
    root, link, session: null,
    show(s) {
      if (row.session === s) return;
      row.session = s;
      root.dataset.kind = kind(s.state);
      put(state, word(s));
      put(why, since(s));
      put(program, s.program ?? "");
      put(cells.Memory, s.rss_bytes ? bytes(s.rss_bytes) : "");
      put(cells.Stored, s.stored_bytes ? bytes(s.stored_bytes) : "");
      put(cells.Class, s.class ?? "");
      put(cells.Host, s.host ?? "");
      put(cells.Labels, labels(s));
      row.count();
    },
    mark(selected) {
      box.checked = selected;
      root.classList.toggle("selected", selected);
    },
    count() {
      const seconds = idle(row.session);
      put(cells.Idle, seconds === undefined ? "" : span(seconds));
    },
  };
  return row;
}

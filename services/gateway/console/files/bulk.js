// Does one thing with several sessions of the list: they are selected, shown what would be done with each, and asked about.
// What was agreed to goes on when another page of the console is shown; the header says how far it is then.
import { ask } from "./api.js";
import { sure } from "./confirm.js";
import { element, fill, put, say } from "./dom.js";
import { inPath, word } from "./format.js";

const atOnce = 4; // requests
const listed = 100; // sessions in a preview

// verbs: what is done, with which, and what the command line is. use and own are roles' rights.
const verbs = [
  { text: "Suspend", right: "use", fits: (s) => s.state === "running", does: "is suspended", line: (names) => `diapause suspend ${names}`, call: (path) => ask("POST", `${path}/suspend`, {}) },
  { text: "Resume", right: "use", fits: (s) => s.state === "suspended", does: "is resumed", line: (names) => `diapause resume ${names}`, call: (path) => ask("POST", `${path}/resume`, {}) },
  { text: "Keep awake for 1 h", right: "use", fits: (s) => s.state === "running", does: "isn't suspended for an hour", line: (names) => `diapause hold ${names} --for 1h --reason "kept awake in the console"`, call: (path) => ask("POST", `${path}/activity`, { kind: "hold", key: "cli", ttl: "1h", reason: "kept awake in the console" }) },
  { text: "Delete", right: "own", danger: true, fits: () => true, does: "is ended, and its snapshots and recording are deleted", line: (names) => `diapause rm --yes ${names}`, call: (path) => ask("DELETE", path) },
];
const saidFor = 30_000; // ms that the header has what came of it
let underway = 0; // works that aren't done

addEventListener("beforeunload", (e) => {
  if (underway > 0) e.preventDefault(); // the browser asks: the rest wouldn't be done
});

const roles = { use: ["client", "owner", "operator"], own: ["owner", "operator"] };

export class Selection {
  #live;
  #names = new Set();
  #changed; // is called when it has
  #hidden = new Set(); // of them, those that the filter hides
  #busy = false;
  #left = false; // another page is shown
  #last = ""; // that was selected

  constructor(live, me, changed) {
    this.#live = live;
    this.#changed = changed;
    this.count = element("span", { role: "status" });
    this.outcome = element("div", { role: "status" });
    this.buttons = verbs.map((v) => {
      const b = element("button", { type: "button", className: v.danger ? "danger" : "", textContent: v.danger ? "Delete…" : v.text });
      b.refused = me?.role && !roles[v.right].includes(me.role);
      if (b.refused) b.title = `not with the role ${me.role}`;
      b.onclick = () => this.#ask(v);
      return b;
    });
    this.clear = element("button", { type: "button", textContent: "Clear", "aria-label": "Clear the selection" });
    this.clear.onclick = () => this.set([], false);
    this.drop = element("button", { type: "button", textContent: "Leave out the hidden ones", hidden: true });
    this.drop.onclick = () => this.set([...this.#hidden], false, true);
    this.root = element("div", { className: "bar bulk", role: "group", "aria-label": "With the selected sessions", hidden: true }, this.count, this.drop, this.buttons, this.clear);
  }

  has(name) {
    return this.#names.has(name);
  }

  get size() {
    return this.#names.size;
  }

  // toggle selects a session or not, and with range all between it and the one before.
  toggle(name, rows, range = false) {
    const on = !this.#names.has(name) || range;
    const [a, b] = [this.#last, name].map((n) => rows.findIndex((s) => s.name === n));
    const names = range && a >= 0 && b >= 0 ? rows.slice(Math.min(a, b), Math.max(a, b) + 1).map((s) => s.name) : [name];
    this.#last = name;
    this.set(names, on, true);
  }

  // set selects names, or selects them not any more; with add the others stay as they are.
  set(names, on, add = false) {
    if (!add) this.#names.clear();
    for (const n of names) {
      if (on) this.#names.add(n);
      else this.#names.delete(n);
    }
    this.show();
    this.#changed();
  }

  // end says that another page is shown.
  end() {
    this.#left = true;
  }

  // show counts those that there are still, and of them those that the list doesn't show: rows are what it has now.
  show(rows) {
    for (const n of this.#names) if (!this.#live.sessions.has(n)) this.#names.delete(n);
    if (rows) {
      this.#hidden = new Set(this.#names);
      for (const s of rows) this.#hidden.delete(s.name);
    }
    const hidden = [...this.#names].filter((n) => this.#hidden.has(n)).length;
    this.root.hidden = this.#names.size === 0 && !this.#busy;
    if (!this.#busy) put(this.count, `${this.#names.size} selected${hidden > 0 ? `, ${hidden} of them hidden by the filter` : ""}`);
    this.drop.hidden = hidden === 0;
    for (const b of this.buttons) b.disabled = b.refused || this.#busy || this.#names.size === 0;
  }

  async #ask(verb) {
    const all = [...this.#names].map((n) => this.#live.sessions.get(n)).filter(Boolean);
    const hides = (s) => this.#hidden.has(s.name);
    all.sort((a, b) => hides(b) - hides(a)); // what isn't seen in the list is seen here
    const fit = all.filter(verb.fits);
    const left = all.filter((s) => !verb.fits(s));
    const item = (s, does) => element("li", {}, element("b", { textContent: s.name }), `, ${word(s)}${hides(s) ? ", hidden by the filter" : ""}: ${does}`);
    const items = [...fit.map((s) => item(s, verb.does)), ...left.map((s) => item(s, "is left as it is"))];
    const title = fit.length === 0 ? `${verb.text}: there is nothing to do` : `${verb.text}: ${fit.length} ${fit.length === 1 ? "session" : "sessions"}?`;
    const hidden = fit.filter(hides).length;
    const about = [hidden > 0 && element("p", { className: "banner warnings", textContent: `${hidden} of them ${hidden === 1 ? "is" : "are"} hidden by the filter.` }), element("ul", { className: "preview", tabIndex: 0, "aria-label": "What is done" }, items.slice(0, listed), items.length > listed && element("li", { textContent: `and ${items.length - listed} more` }))];
    const line = fit.length > 0 ? verb.line(fit.map((s) => s.name).join(" ")) : "";
    if (!await sure({ title, about, line, ok: fit.length > 0 ? verb.text : "Close", danger: Boolean(verb.danger) }) || fit.length === 0) return;
    await this.#do(verb, fit);
  }

  async #do(verb, all) {
    this.#busy = true;
    underway++;
    this.show();
    const failed = [];
    let next = 0;
    let done = 0;
    const one = async () => {
      while (next < all.length) {
        const s = all[next++];
        try {
          await verb.call(`/sessions/${inPath(s.name)}`);
          this.#names.delete(s.name);
        } catch (e) {
          failed.push(`${s.name}: ${e.text ?? e.message}`);
          if (e.status === 401) next = all.length; // none of the others would be done
        }
        this.#live.refresh(s.name);
        this.#tell(`${verb.text}: ${++done} of ${all.length}`);
      }
    };
    await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, one));
    this.#busy = false;
    underway--;
    const text = `${verb.text}: ${all.length - failed.length} of ${all.length} done${failed.length ? `, ${failed.length} failed` : ""}.`;
    fill(this.outcome, [text, failed, Date.now()], () => [element("p", { className: failed.length ? "failed" : "why", textContent: text }), failed.length > 0 && element("ul", { className: "preview", tabIndex: 0, "aria-label": "What failed" }, failed.slice(0, listed).map((f) => element("li", { textContent: f })))]);
    say(text);
    this.#tell(text, failed);
    this.show();
    if (!this.#left) this.#changed();
  }

  // tell says how far it is: beside the buttons, or in the header if another page is shown.
  #tell(text, failed) {
    put(this.count, text);
    if (!this.#left) return;
    const work = document.getElementById("work");
    put(work, text);
    work.title = (failed ?? []).slice(0, listed).join("\n");
    if (failed) setTimeout(() => work.textContent === text && put(work, ""), saidFor);
  }
}

// selecting makes the box that selects a row.
export function selecting(name, toggle) {
  const box = element("input", { type: "checkbox", className: "select", "aria-label": `Select ${name}`, tabIndex: -1 });
  box.onclick = (e) => toggle(name, e.shiftKey);
  return box;
}

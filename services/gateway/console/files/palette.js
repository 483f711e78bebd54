// The command search: finds a session by what is typed, or by what its terminal showed, and goes there.
import { ask } from "./api.js";
import { element, put } from "./dom.js";
import { kind, order, since, word } from "./format.js";
import { matches, wordsOf } from "./list.js";

const most = 50;
// Terminals are searched once nothing was typed for so long, for at least so many characters; so many lines are shown.
const pause = 250;
const least = 3;
const lines = 10;

let open = null;

export function closePalette() {
  open?.close();
}

export function openPalette(live, more = []) {
  if (open) return;
  const input = element("input", { type: "search", role: "combobox", placeholder: "Go to a session…", autocomplete: "off", spellcheck: false, "aria-label": "Go to a session", "aria-controls": "found", "aria-expanded": "true", "aria-autocomplete": "list" });
  const list = element("ul", { id: "found", role: "listbox", "aria-label": "Sessions and lines in terminals" });
  const none = element("p", { className: "note", role: "status" });
  const dialog = element("dialog", { className: "palette", "aria-label": "Search" }, input, list, none);
  let found = [];
  let at = 0;
  const terminals = new History(() => draw());

  const draw = () => {
    const words = wordsOf(input.value);
    found = [...pages, ...more.filter((p) => p.key).map((p) => ({ name: p.name, to: `#/${p.key}` }))].filter((p) => !words.length || words.every((w) => p.name.toLowerCase().includes(w)));
    const sessions = [...live.sessions.values()].filter((s) => matches(s, words)).sort((a, b) => rank(a, words) - rank(b, words) || order(a, b));
    found = [...sessions.slice(0, most).map((s) => ({ session: s, name: s.name, to: `#/s/${encodeURIComponent(s.name)}` })), ...found];
    const inTerminals = terminals.found.map((f) => ({ line: f, to: `#/s/${encodeURIComponent(f.session)}` }));
    const first = found.length;
    found = [...found, ...inTerminals];
    at = Math.min(at, Math.max(0, found.length - 1));
    const items = found.map((f, i) => {
      const item = element("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === at) });
      if (f.session) {
        item.dataset.kind = kind(f.session.state);
        item.append(element("span", { className: "dot", "aria-hidden": "true" }), element("b", { textContent: f.name }), element("span", { className: "why", textContent: `${word(f.session)} ${since(f.session)}` }));
      } else if (f.line) {
        item.append(element("b", { textContent: f.line.session }), element("code", { textContent: f.line.line }), element("time", { className: "why", textContent: new Date(f.line.time).toLocaleString() }));
      } else {
        item.append(element("span", { textContent: f.name }));
      }
      item.onclick = () => go(f);
      return item;
    });
    const parts = items.slice(0, first);
    if (inTerminals.length) {
      const head = element("li", { role: "presentation", id: "in-terminals", className: "head", textContent: "In terminals" });
      parts.push(element("li", { role: "presentation", className: "part" }, element("ul", { role: "group", "aria-labelledby": "in-terminals" }, head, ...items.slice(first))));
    }
    list.replaceChildren(...parts);
    put(none, found.length ? (sessions.length > most ? `The first ${most} of ${sessions.length}` : "") : "Nothing matches.");
    if (found.length) input.setAttribute("aria-activedescendant", `found-${at}`);
    else input.removeAttribute("aria-activedescendant");
    items[at]?.scrollIntoView({ block: "nearest" });
  };

  const go = (f) => {
    dialog.close();
    if (f.act) f.act();
    else location.hash = f.to;
  };

  input.oninput = () => {
    at = 0;
    terminals.look(input.value);
    draw();
  };
  input.onkeydown = (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step && found.length) {
      e.preventDefault();
      at = (at + step + found.length) % found.length;
      draw();
    }
    if (e.key === "Enter" && found[at]) {
      e.preventDefault();
      go(found[at]);
    }
  };
  dialog.onclick = (e) => {
    if (e.target === dialog) dialog.close();
  };
  const unwatch = live.watch(draw);
  dialog.onclose = () => {
    unwatch();
    terminals.stop();
    dialog.remove();
    open = null;
  };
  open = dialog;
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  draw();
}

// History is what terminals showed, as far as it has what was typed last. Who may not see that finds nothing in it.
class History {
  found = [];
  #changed;
  #timer;
  #asked;
  #denied = false;

  constructor(changed) {
    this.#changed = changed;
  }

  // look begins to look for a text, in place of the one before.
  look(text) {
    this.stop();
    this.found = [];
    text = text.trim();
    if (this.#denied || [...text].length < least) return;
    this.#timer = setTimeout(() => this.#ask(text), pause);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
  }

  async #ask(text) {
    const asked = new AbortController();
    this.#asked = asked;
    try {
      const page = await ask("GET", `/search?${new URLSearchParams({ q: text, limit: lines, context: 0 })}`, undefined, asked.signal);
      if (asked.signal.aborted) return;
      this.found = page.found;
      this.#changed();
    } catch (e) {
      if (e.status === 403) this.#denied = true; // else there is nothing to find, for now
    }
  }
}

// pages are what can be gone to besides.
const pages = [
  { name: "All sessions", to: "#/" },
  { name: "The HTTP API", act: () => location.assign("/api/v1/docs") },
  { name: "The login of this browser", act: () => location.assign("/login") },
];

// rank puts first what begins with what was typed.
function rank(s, [first]) {
  if (!first) return 0;
  const name = s.name.toLowerCase();
  return name.startsWith(first) ? 0 : name.includes(first) ? 1 : 2;
}

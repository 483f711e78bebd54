// The command search: finds a session by what is typed, and goes there.
import { element, put } from "./dom.js";
import { kind, order, since, word } from "./format.js";
import { matches, wordsOf } from "./list.js";

const most = 50;

let open = null;

export function closePalette() {
  open?.close();
}

export function openPalette(live, more = []) {
  if (open) return;
  const input = element("input", { type: "search", role: "combobox", placeholder: "Go to a session…", autocomplete: "off", spellcheck: false, "aria-label": "Go to a session", "aria-controls": "found", "aria-expanded": "true", "aria-autocomplete": "list" });
  const list = element("ul", { id: "found", role: "listbox", "aria-label": "Sessions" });
  const none = element("p", { className: "note", role: "status" });
  const dialog = element("dialog", { className: "palette", "aria-label": "Search" }, input, list, none);
  let found = [];
  let at = 0;

  const draw = () => {
    const words = wordsOf(input.value);
    found = [...pages, ...more.filter((p) => p.key).map((p) => ({ name: p.name, to: `#/${p.key}` }))].filter((p) => !words.length || words.every((w) => p.name.toLowerCase().includes(w)));
    const sessions = [...live.sessions.values()].filter((s) => matches(s, words)).sort((a, b) => rank(a, words) - rank(b, words) || order(a, b));
    found = [...sessions.slice(0, most).map((s) => ({ session: s, name: s.name, to: `#/s/${encodeURIComponent(s.name)}` })), ...found];
    at = Math.min(at, Math.max(0, found.length - 1));
    list.replaceChildren(...found.map((f, i) => {
      const item = element("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === at) });
      if (f.session) {
        item.dataset.kind = kind(f.session.state);
        item.append(element("span", { className: "dot", "aria-hidden": "true" }), element("b", { textContent: f.name }), element("span", { className: "why", textContent: `${word(f.session)} ${since(f.session)}` }));
      } else {
        item.append(element("span", { textContent: f.name }));
      }
      item.onclick = () => go(f);
      return item;
    }));
    put(none, found.length ? (sessions.length > most ? `The first ${most} of ${sessions.length}` : "") : "Nothing matches.");
    if (found.length) input.setAttribute("aria-activedescendant", `found-${at}`);
    else input.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };

  const go = (f) => {
    dialog.close();
    if (f.act) f.act();
    else location.hash = f.to;
  };

  input.oninput = () => {
    at = 0;
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
    dialog.remove();
    open = null;
  };
  open = dialog;
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  draw();
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

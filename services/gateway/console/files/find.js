// Finds text in what a terminal showed, as far back as its scrollback goes.
import { element, put } from "./dom.js";

const least = 2; // characters that are looked for while they are typed

export class Finder {
  #addon;
  #term;

  constructor(term, SearchAddon) {
    this.#term = term;
    this.#addon = new SearchAddon();
    term.loadAddon(this.#addon);
    this.text = element("input", { type: "search", placeholder: "Find in what it showed…", "aria-label": "Find in the terminal", autocomplete: "off", spellcheck: false });
    this.found = element("span", { className: "why", role: "status" });
    const button = (text, label, on) => {
      const b = element("button", { type: "button", textContent: text, "aria-label": label });
      b.onclick = () => this.#find(on);
      return b;
    };
    this.root = element("form", { className: "find", role: "search" }, this.text, button("↑", "Find before", false), button("↓", "Find after", true), this.found);
    this.root.onsubmit = (e) => {
      e.preventDefault();
      this.#find(false);
    };
    this.text.oninput = () => (this.text.value.length >= least ? this.#find(false, true) : this.#clear());
    this.text.onkeydown = (e) => {
      if (e.key !== "Escape") return;
      this.text.value = "";
      this.#clear();
      term.focus();
    };
    this.#addon.onDidChangeResults(({ resultIndex, resultCount }) => put(this.found, this.text.value === "" ? "" : resultCount === 0 ? "not found" : resultIndex < 0 ? `${resultCount} or more` : `${resultIndex + 1} of ${resultCount}`));
  }

  focus() {
    this.text.focus();
    this.text.select();
  }

  // find goes to the next match: backwards, unless on is true. incremental begins at the one that is shown.
  #find(on, incremental = false) {
    if (!this.text.value) return;
    const decorations = { matchBackground: "#8a6d00", matchOverviewRuler: "#8a6d00", activeMatchBackground: "#2467c4", activeMatchColorOverviewRuler: "#2467c4" };
    if (on) this.#addon.findNext(this.text.value, { decorations });
    else this.#addon.findPrevious(this.text.value, { decorations, incremental });
  }

  #clear() {
    this.#addon.clearDecorations();
    this.#term.clearSelection();
    put(this.found, "");
  }
}

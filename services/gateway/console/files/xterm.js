// Brings xterm.js to the pages that show a terminal, and what those have in common.
import { element } from "./dom.js";
import { install } from "./styles.js";

// protocol is that of a terminal's WebSocket, which TERMINAL.md describes.
export const protocol = "diapause.terminal.v1";

let loading = null;

// load brings xterm.js, which the other pages have no use for.
export function load() {
  loading ??= (async () => {
    install();
    const style = element("link", { rel: "stylesheet", href: "/console/vendor/xterm.css" });
    document.head.append(style);
    const [{ Terminal }, { FitAddon }, { SearchAddon }] = await Promise.all([import("/console/vendor/xterm.mjs"), import("/console/vendor/addon-fit.mjs"), import("/console/vendor/addon-search.mjs")]);
    return { Terminal, FitAddon, SearchAddon };
  })().catch((e) => {
    loading = null;
    throw e;
  });
  return loading;
}

// randomName is one by which a client is known again.
export function randomName() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export const readable = 4.5; // the contrast that programs' colours have at least
export const dark = matchMedia("(prefers-color-scheme: dark)");
export const theme = () => (dark.matches ? { background: "#161a1d", foreground: "#e3e6e8", cursor: "#e3e6e8", selectionBackground: "#3f5a75" }
  : { background: "#ffffff", foreground: "#1d2327", cursor: "#1d2327", selectionBackground: "#b5d5ff", white: "#6b7075", brightWhite: "#444a4f", yellow: "#7a5b00", brightYellow: "#8a6700", green: "#1b6e35", brightGreen: "#1b7e3a", cyan: "#0a6b78", brightCyan: "#0a7a88" });

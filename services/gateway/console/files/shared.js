// A terminal that others share, for who has the link: the terminal and no more, whether this browser is logged in or not. The
// token comes in the fragment, which no server gets, and leaves the address bar at once; this tab keeps it, to be loaded again.
import { put } from "./dom.js";
import { dark, load, protocol, randomName, theme } from "./xterm.js";

const path = "/api/v1/shared";
const key = "diapause-share";
const most = 5_000; // ms between two attempts
const over = "The share has ended, or the link isn't whole. Ask who shared the terminal for another one.";

const state = document.getElementById("state");
const screen = document.getElementById("screen");
const client = randomName();
let token = "";
let term = null;
let socket = null;
let retry = 0;
let tries = 0;

// given takes the token of the link.
function given() {
  const found = location.hash.slice(1);
  if (found) sessionStorage.setItem(key, found);
  history.replaceState(null, "", location.pathname);
  token = sessionStorage.getItem(key) ?? "";
}

// end shows why there is nothing more to see.
function end(text) {
  clearTimeout(retry);
  put(state, text);
  screen.classList.add("dim");
  const had = socket;
  socket = null;
  had?.close(1000);
}

function told(m) {
  switch (m.type) {
    case "state":
      put(state, m.state === "suspended" ? "The session is paused. This goes on when it is resumed." : m.state);
      break;
    case "attached":
      tries = 0;
      put(state, m.exact === false ? "live; its screen isn't kept, this is the last of the output" : "live");
      break;
    case "size":
      term.resize(m.cols, m.rows);
      break;
    case "ended":
      end(m.exit ? `It ended: ${m.exit.reason || (m.exit.signal ? `signal ${m.exit.signal}` : `exit status ${m.exit.code}`)}` : "The session was deleted.");
      break;
    case "error":
      if (m.problem?.status === 401) end(over);
      else put(state, [m.problem?.detail, m.problem?.hint].filter(Boolean).join(". "));
      break;
  }
}

// again connects once more, later, unless the gateway refuses the token: a socket doesn't tell that.
async function again() {
  put(state, "The connection is lost. It is made again.");
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, redirect: "error", credentials: "omit", cache: "no-store" }).catch(() => null);
  if (answer?.status === 401 || answer?.status === 403) {
    end(over);
    return;
  }
  if (answer?.status === 429) put(state, "Too many watch. It is tried again.");
  retry = setTimeout(connect, Math.min(most, 250 * 2 ** tries++));
}

function connect() {
  clearTimeout(retry);
  const ws = socket = new WebSocket(location.origin.replace(/^http/, "ws") + path, [protocol, `diapause.token.${token}`]);
  ws.binaryType = "arraybuffer";
  ws.onopen = () => ws.send(JSON.stringify({ type: "attach", client, flow: true }));
  ws.onmessage = ({ data }) => {
    if (ws !== socket) return;
    if (typeof data === "string") {
      told(JSON.parse(data));
      return;
    }
    term.write(new Uint8Array(data, 9), () => {
      ws.shown = (ws.shown ?? 0) + data.byteLength;
      ws.due ??= setTimeout(() => {
        ws.due = null;
        if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ type: "shown", bytes: ws.shown }));
      }, 50);
    });
  };
  ws.onclose = ({ code }) => {
    if (ws !== socket) return;
    socket = null;
    if (code === 1008) end("This page isn't of the gateway's version: load it again.");
    else again();
  };
}

async function show() {
  given();
  if (!token) {
    put(state, over);
    return;
  }
  if (!term) {
    const { Terminal } = await load();
    term = new Terminal({ fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", fontSize: 14, scrollback: 1000, theme: theme(), disableStdin: true, linkHandler: { activate() {} } });
    screen.hidden = false;
    term.open(screen);
    dark.addEventListener("change", () => { term.options.theme = theme(); });
  }
  screen.classList.remove("dim");
  connect();
}

addEventListener("hashchange", () => {
  if (location.hash.length < 2) return;
  end("");
  show();
});
show();

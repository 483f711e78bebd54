// A session's terminal: xterm.js at the WebSocket that TERMINAL.md describes. What is typed is counted by position, so that
// a socket that is cut loses nothing and sends nothing twice.
import { ask, ended, page } from "./api.js";
import { command, element, put } from "./dom.js";
import { Finder } from "./find.js";
import { bytes, inPath } from "./format.js";
import { dark, load, protocol, randomName, readable, theme } from "./xterm.js";

const chunk = 32 << 10; // of a message
const ahead = 128 << 10; // sent, and not taken
const mostOwed = 1 << 20; // typed, and not taken
const unseen = 60_000; // ms after which a page that isn't visible doesn't use the session any more
const saidEvery = 50; // ms between two reports of what was shown

// Typed is what was typed and isn't known to be taken.
class Typed {
  taken = 0; // position of what owed begins with
  sent = 0;
  owed = new Uint8Array();

  get full() {
    return this.owed.length >= mostOwed;
  }

  put(data) {
    const all = new Uint8Array(this.owed.length + data.length);
    all.set(this.owed);
    all.set(data, this.owed.length);
    this.owed = all;
  }

  // next gives a message with what may be sent now, or null.
  next() {
    const from = this.sent - this.taken;
    const part = this.owed.subarray(from, Math.min(from + chunk, ahead, this.owed.length));
    if (part.length === 0) return null;
    const message = new Uint8Array(8 + part.length);
    new DataView(message.buffer).setBigUint64(0, BigInt(this.sent));
    message.set(part, 8);
    this.sent += part.length;
    return message;
  }

  take(position) {
    this.owed = this.owed.slice(Math.min(this.owed.length, Math.max(0, position - this.taken)));
    this.taken = position;
    this.sent = Math.max(this.sent, position);
  }

  // attached says where a session is. Of another one, or of a time before, nothing is owed.
  attached(position, same) {
    if (!same || position < this.taken) this.owed = new Uint8Array();
    else this.take(position);
    this.taken = this.sent = position;
  }
}

export class TerminalPane {
  #name;
  #client = randomName();
  #term = null;
  #fit = null;
  #ws = null;
  #wants = false; // to be connected
  #attached = false;
  #over = false;
  #state = "";
  #typed = new Typed();
  #at = 0; // of the output
  #session; // of the last attached message
  #run;
  #tries = 0;
  #retry = 0;
  #size = "";
  #hidden = 0;
  #ends = new AbortController();

  constructor(root, name, me) {
    this.#name = name;
    this.#allowed = !me.role || ["owner", "operator"].includes(me.role);
    this.connect = element("button", { type: "button", className: "main" });
    this.connect.onclick = () => this.#begin();
    this.leave = element("button", { type: "button", textContent: "Disconnect", hidden: true });
    this.leave.onclick = () => this.#leave("Disconnected: the session sleeps when it isn't used.");
    this.reader = element("button", { type: "button", textContent: "Screen reader", "aria-pressed": "false", hidden: true });
    this.reader.onclick = () => {
      const on = !this.#term.options.screenReaderMode;
      this.#term.options.screenReaderMode = on;
      this.reader.setAttribute("aria-pressed", String(on));
    };
    this.said = element("span", { className: "said", role: "status" });
    this.titled = element("span", { className: "why" });
    this.find = element("div", {});
    this.screen = element("div", { className: "screen", hidden: true });
    root.replaceChildren(element("h2", { className: "unseen", textContent: "Terminal" }),
      element("div", { className: "bar" }, this.connect, this.leave, this.reader, this.said, this.titled), this.find, this.screen,
      element("p", { className: "why" }, "While it is connected the session is in use, and what is typed is activity. Shift-Esc leaves the terminal, Ctrl-Shift-F finds in what it showed. ", command(`diapause attach ${name}`)));
    const { signal } = this.#ends;
    if (this.#allowed) load().catch(() => {}); // for Connect, which loads it else
    dark.addEventListener("change", () => { if (this.#term) this.#term.options.theme = theme(); }, { signal });
    document.addEventListener("visibilitychange", () => this.#seen(), { signal });
    addEventListener("online", () => this.#wants && !this.#ws && this.#open(false), { signal });
  }

  #allowed;
  #finder = null; // with the terminal

  end() {
    this.#wants = false;
    this.#ends.abort();
    clearTimeout(this.#retry);
    clearTimeout(this.#hidden);
    this.#close();
    this.#sized?.disconnect();
    this.#term?.dispose();
    this.#term = null;
  }

  #sized = null;

  // state is the record's: what the button does.
  state(s) {
    this.#tty = s.tty || Boolean(s.container) || s.driver === "docker";
    this.#archived = Boolean(s.archived);
    if (!this.#ws) this.#state = s.state;
    if (this.#over && !this.#ws && ["running", "suspended"].includes(s.state)) this.#over = this.#wants = false; // it began again
    this.#draw();
  }

  #tty = true;
  #archived = false;

  get #asleep() {
    return this.#state === "suspended";
  }

  #draw() {
    const live = this.#wants && !this.#asleep && !this.#over;
    const hadFocus = document.activeElement === this.connect;
    put(this.connect, this.#asleep ? "Resume and connect" : "Connect");
    this.connect.hidden = live;
    this.connect.disabled = !this.#allowed || !this.#tty || this.#archived || this.#over || !["running", "suspended", "resuming", "starting", "suspending"].includes(this.#state);
    this.leave.hidden = !this.#wants || this.#over;
    this.reader.hidden = !this.#term;
    this.screen.classList.toggle("dim", !live);
    if (this.#term) this.#term.options.disableStdin = !live;
    if (!this.#allowed) put(this.said, "Terminals are for the roles owner and operator.");
    else if (!this.#tty) put(this.said, "The session was run without a terminal.");
    else if (this.#archived) put(this.said, "It is in the archive: resume it first, in its overview.");
    else if (this.said.textContent.startsWith("It is in the archive")) put(this.said, "");
    if (hadFocus && live) this.#term?.focus();
  }

  async #begin() {
    const wake = this.#asleep;
    if (this.#ws?.readyState === WebSocket.OPEN && wake) {
      this.#say({ type: "wake" });
      put(this.said, "resuming…");
      this.#term?.focus();
      return;
    }
    this.#wants = true;
    this.#over = false;
    put(this.said, wake ? "resuming…" : "connecting…");
    try {
      await this.#makeTerm();
    } catch {
      this.#wants = false;
      put(this.said, "The terminal's files can't be loaded: reload the page once the gateway answers.");
    }
    if (!this.#wants || this.#ws) return;
    this.#open(wake);
    this.#draw();
    this.#term.focus();
  }

  async #makeTerm() {
    if (this.#term) return;
    const { Terminal, FitAddon, SearchAddon } = await load();
    if (this.#term || this.#ends.signal.aborted) return;
    this.screen.hidden = false;
    const term = this.#term = new Terminal({ cursorBlink: true, fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", fontSize: 14, scrollback: 10_000, theme: theme(), disableStdin: true, allowProposedApi: true, minimumContrastRatio: readable });
    this.#fit = new FitAddon();
    term.loadAddon(this.#fit);
    term.open(this.screen);
    this.#finder = new Finder(term, SearchAddon);
    this.find.replaceChildren(this.#finder.root);
    const encoder = new TextEncoder();
    term.onData((text) => this.#type(encoder.encode(text)));
    term.onBinary((text) => this.#type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    term.onTitleChange((title) => put(this.titled, title ? `Its title: “${title.slice(0, 200)}”` : ""));
    term.attachCustomKeyEventHandler((e) => {
      if (e.ctrlKey && e.shiftKey && e.key.toLowerCase() === "f") {
        if (e.type === "keydown") this.#finder.focus();
        e.preventDefault();
        return false;
      }
      if (e.key !== "Escape" || !e.shiftKey) return true;
      if (e.type === "keydown") this.leave.focus();
      e.preventDefault();
      return false;
    });
    term.onCursorMove(() => this.#follow());
    this.#sized = new ResizeObserver(() => this.#resize());
    this.#sized.observe(this.screen);
    this.#resize();
  }

  #window() {
    const d = this.#fit.proposeDimensions();
    return d && d.rows > 0 && d.cols > 0 ? { rows: d.rows, cols: d.cols } : { rows: this.#term.rows, cols: this.#term.cols };
  }

  #resize() {
    const w = this.#window();
    if (`${w.rows} ${w.cols}` === this.#size) return;
    this.#size = `${w.rows} ${w.cols}`;
    if (this.#attached) this.#say({ type: "resize", ...w });
    else this.#term.resize(w.cols, w.rows);
    this.#fits();
  }

  // fits has a terminal scroll that is larger than the window: another client has given it its size.
  #fits() {
    const w = this.#window();
    this.screen.classList.toggle("larger", this.#term.rows > w.rows || this.#term.cols > w.cols);
    this.#follow();
  }

  // follow keeps the cursor in sight.
  #follow() {
    if (!this.screen.classList.contains("larger")) return;
    const drawn = this.#term.element.querySelector(".xterm-screen");
    const { cursorX, cursorY } = this.#term.buffer.active;
    const [width, height] = [drawn.clientWidth / this.#term.cols, drawn.clientHeight / this.#term.rows];
    const near = (at, from, size, cell) => (at < from ? at : at + cell > from + size ? at + cell - size : from);
    this.screen.scrollTop = near(cursorY * height, this.screen.scrollTop, this.screen.clientHeight - 16, height);
    this.screen.scrollLeft = near(cursorX * width, this.screen.scrollLeft, this.screen.clientWidth - 16, width);
  }

  #say(message) {
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify(message));
  }

  #type(data) {
    if (!this.#wants || this.#asleep || this.#over) return;
    if (this.#typed.full) {
      put(this.said, "too much is typed that the session hasn't taken");
      return;
    }
    this.#typed.put(data);
    this.#pump();
  }

  #pump() {
    if (!this.#attached || this.#ws?.readyState !== WebSocket.OPEN) return;
    for (let m; (m = this.#typed.next());) this.#ws.send(m);
  }

  #open(wake) {
    clearTimeout(this.#retry);
    const ws = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/sessions/${inPath(this.#name)}/attach`, [protocol, `diapause.page.${page()}`]);
    ws.binaryType = "arraybuffer";
    this.#ws = ws;
    this.#attached = false;
    const shown = { bytes: 0, said: 0, due: 0 };
    ws.onopen = () => {
      this.#say({ type: "attach", client: this.#client, ...this.#window(), session: this.#session, run: this.#run, at: this.#at, taken: this.#typed.taken, asleep: !wake, flow: true });
    };
    ws.onmessage = ({ data }) => {
      if (ws !== this.#ws) return;
      if (typeof data === "string") this.#told(JSON.parse(data));
      else this.#output(ws, data, shown);
    };
    ws.onclose = (e) => {
      clearTimeout(shown.due);
      if (ws === this.#ws) this.#closed(e);
    };
  }

  #output(ws, data, shown) {
    this.#at = Number(new DataView(data).getBigUint64(1));
    this.#term.write(new Uint8Array(data, 9), () => {
      shown.bytes += data.byteLength;
      shown.due ||= setTimeout(() => {
        shown.due = 0;
        shown.said = shown.bytes;
        if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ type: "shown", bytes: shown.said }));
      }, saidEvery);
    });
  }

  #told(m) {
    switch (m.type) {
      case "state":
        this.#state = m.state;
        if (m.state !== "running") this.#attached = false;
        put(this.said, m.state === "running" ? "connecting…" : m.state === "suspended" ? "The session is paused. What is typed now goes nowhere: resume it first." : m.state);
        this.#draw();
        break;
      case "stage":
        put(this.said, `resuming: ${m.stage}${m.of ? `, ${bytes(m.bytes)} of ${bytes(m.of)}` : ""}`);
        break;
      case "attached":
        this.#typed.attached(m.taken ?? 0, this.#session === m.session);
        this.#session = m.session;
        this.#run = m.run;
        this.#state = "running";
        this.#attached = true;
        this.#tries = 0;
        put(this.said, m.exact === false ? "connected; its screen isn't kept, this is the last of the output" : "connected");
        this.#draw();
        this.#pump();
        break;
      case "size":
        this.#term.resize(m.cols, m.rows);
        this.#fits();
        break;
      case "taken":
        this.#typed.take(m.taken);
        this.#pump();
        break;
      case "moved":
        put(this.said, `it runs on ${m.host} now`);
        break;
      case "ended":
        this.#over = true;
        put(this.said, m.exit ? `It ended: ${m.exit.reason || (m.exit.signal ? `signal ${m.exit.signal}` : `exit status ${m.exit.code}`)}` : "The session was deleted.");
        this.#draw();
        break;
      case "error":
        put(this.said, [m.problem?.detail, m.problem?.hint].filter(Boolean).join(". "));
        if (m.problem?.status === 401) ended({ text: m.problem.detail, status: 401 });
        break;
    }
  }

  async #closed({ code, reason }) {
    this.#ws = null;
    this.#attached = false;
    if (!this.#wants || this.#over || this.#ends.signal.aborted) {
      this.#draw();
      return;
    }
    if (code === 1008 || code === 1011) {
      this.#wants = false;
      if (reason && code === 1008) put(this.said, reason);
      this.#draw();
      return;
    }
    put(this.said, "The connection is lost. It is made again; what is typed meanwhile is sent then.");
    const wait = Math.min(5_000, 250 * 2 ** this.#tries++);
    try {
      await ask("GET", "/whoami", undefined, this.#ends.signal); // a socket doesn't tell that the login has ended
    } catch (e) {
      if (e.status === 401 || e.name === "AbortError") return;
    }
    if (!this.#wants) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#wants && !this.#ws && !document.hidden && this.#open(false), wait);
  }

  #close() {
    const ws = this.#ws;
    this.#ws = null;
    this.#attached = false;
    ws?.close(1000);
  }

  #leave(text) {
    this.#wants = false;
    clearTimeout(this.#retry);
    this.#close();
    put(this.said, text);
    this.#draw();
    this.connect.focus();
  }

  // seen: a tab that isn't looked at doesn't keep the session awake for long; it goes on where it was.
  #seen() {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => this.#close(), unseen);
      return;
    }
    if (this.#wants && !this.#ws && !this.#over) this.#open(false);
  }
}

// A session's desktop: noVNC at the WebSocket of the operation "desktop". Looking never wakes the session; a person does, by a
// button that says so. When it has slept and runs again the page connects by itself.
import { ask, ended, open, page } from "./api.js";
import { command, element, put } from "./dom.js";
import { bytes, inPath } from "./format.js";

const protocol = "diapause.desktop.v1";
const unseen = 60_000; // ms after which a page that isn't visible is disconnected
const mostCopied = 1 << 20; // characters

// Channel is the part of a socket that noVNC has: the bytes.
class Channel {
  binaryType = "arraybuffer";
  protocol = "";
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  #ws;

  constructor(ws) {
    this.#ws = ws;
  }

  get readyState() {
    return this.#ws.readyState;
  }

  send(data) {
    this.#ws.send(data);
  }

  close() {
    this.#ws.close(1000);
  }
}

export class DesktopPane {
  #name;
  #allowed;
  #ws = null;
  #rfb = null;
  #live = false; // noVNC has painted what the desktop shows
  #wants = false; // to be connected
  #state = "";
  #archived = false;
  #final = false; // another try is of no use
  #tries = 0;
  #retry = 0;
  #hidden = 0;
  #watching = false;
  #fits = false;
  #copies = false;
  #pictured = null; // the snapshot whose picture is shown, or was asked for
  #ends = new AbortController();

  constructor(root, name, me) {
    this.#name = name;
    this.#allowed = !me.role || ["owner", "operator"].includes(me.role);
    const button = (text, act, more = {}) => {
      const b = element("button", { type: "button", textContent: text, ...more });
      b.onclick = act;
      return b;
    };
    this.connect = button("Connect", () => this.#begin(), { className: "main" });
    this.leave = button("Disconnect", () => this.#leave(), { hidden: true });
    this.watch = button("Watch only", () => this.#toggleWatch(), { "aria-pressed": "false" });
    this.fit = button("Size follows the window", () => this.#toggleFit(), { "aria-pressed": "false" });
    this.copy = button("Share the clipboard", () => this.#toggleCopy(), { "aria-pressed": "false" });
    if (!navigator.clipboard) {
      this.copy.disabled = true;
      this.copy.title = "a page without TLS beyond this machine has no clipboard";
    }
    this.said = element("span", { className: "said", role: "status" });
    this.last = element("canvas", { className: "last", hidden: true, role: "img", "aria-label": "What the desktop showed last" });
    this.view = element("div");
    this.sleeps = element("p", { className: "sleeps", hidden: true, textContent: "asleep" });
    this.screen = element("div", { className: "screen", hidden: true }, this.last, this.view, this.sleeps);
    root.replaceChildren(element("h2", { className: "unseen", textContent: "Desktop" }),
      element("div", { className: "bar" }, this.connect, this.leave, this.watch, this.fit, this.copy, this.said), this.screen,
      element("p", { className: "why" }, "While this page is visible and connected the session is in use, and keys and the pointer are activity. Shift-Esc leaves the desktop. ", command(`diapause forward ${name} 5900`)));
    const { signal } = this.#ends;
    document.addEventListener("visibilitychange", () => this.#seen(), { signal });
    addEventListener("online", () => this.#again(0), { signal });
    addEventListener("focus", () => this.#paste(), { signal });
    this.screen.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || !e.shiftKey) return;
      e.preventDefault();
      e.stopPropagation();
      this.leave.focus();
    }, { signal, capture: true });
  }

  end() {
    this.#wants = false;
    this.#ends.abort();
    clearTimeout(this.#retry);
    clearTimeout(this.#hidden);
    this.#close();
  }

  // state is the record's: what the button does, and whether the desktop is there again.
  state(s) {
    this.#archived = Boolean(s.archived);
    if (!this.#ws) {
      this.#state = s.state;
      if (s.state === "running") this.#again();
      else clearTimeout(this.#retry);
      if (this.#asleep && s.desktop && this.#allowed && !this.#archived) this.#picture(s.snapshot?.id ?? "");
    }
    this.#draw();
  }

  // picture shows what the desktop showed when it was suspended, as the snapshot has it. That wakes nothing.
  async #picture(snapshot) {
    if (this.#pictured === snapshot) return;
    this.#pictured = snapshot;
    try {
      const r = await open(`/sessions/${inPath(this.#name)}/desktop/picture`, this.#ends.signal);
      const shown = await createImageBitmap(await r.blob());
      if (this.#pictured !== snapshot || this.#live) return;
      this.last.width = shown.width;
      this.last.height = shown.height;
      this.last.getContext("2d").drawImage(shown, 0, 0);
      this.screen.hidden = false;
      this.#draw();
    } catch (e) {
      if (e.name !== "AbortError" && this.#asleep) put(this.said, `There is no picture of the desktop: ${e.text ?? e.message}`);
    }
  }

  get #asleep() {
    return this.#state === "suspended";
  }

  #draw() {
    const live = this.#wants && !this.#asleep && !this.#final;
    put(this.connect, this.#asleep ? "Resume and connect" : "Connect");
    this.connect.hidden = live;
    this.connect.disabled = !this.#allowed || this.#archived || !["running", "suspended", "resuming", "starting", "suspending"].includes(this.#state);
    this.leave.hidden = !this.#wants;
    this.watch.setAttribute("aria-pressed", String(this.#watching));
    this.fit.setAttribute("aria-pressed", String(this.#fits));
    this.copy.setAttribute("aria-pressed", String(this.#copies));
    this.fit.disabled = this.#watching;
    this.screen.classList.toggle("dim", !this.#live);
    this.last.hidden = this.#live;
    this.sleeps.hidden = !this.#asleep || Boolean(this.#ws);
    if (!this.#allowed) put(this.said, "Desktops are for the roles owner and operator.");
    else if (this.#archived) put(this.said, "It is in the archive: resume it first, in its overview.");
    else if (this.#asleep && !this.#ws) put(this.said, "The session is paused: its desktop is there again when it is resumed.");
  }

  #begin() {
    this.#wants = true;
    this.#final = false;
    this.#tries = 0;
    put(this.said, this.#asleep ? "resuming…" : "connecting…");
    this.#open(this.#asleep);
  }

  #open(wake) {
    clearTimeout(this.#retry);
    this.#close();
    const query = new URLSearchParams({ ...(wake && { wake: true }), ...(this.#watching && { view: true }) });
    const ws = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/sessions/${inPath(this.#name)}/desktop?${query}`, [protocol, `diapause.page.${page()}`]);
    ws.binaryType = "arraybuffer";
    const channel = new Channel(ws);
    const early = []; // bytes that came before noVNC was loaded
    this.#ws = ws;
    ws.onopen = () => this.#tell();
    ws.onmessage = (e) => {
      if (ws !== this.#ws) return;
      if (typeof e.data === "string") this.#told(ws, channel, early, JSON.parse(e.data));
      else if (channel.onmessage) channel.onmessage(e);
      else early.push(e);
    };
    ws.onclose = (e) => {
      if (ws === this.#ws) this.#closed(e);
      channel.onclose?.(e);
    };
    this.#draw();
  }

  #told(ws, channel, early, m) {
    switch (m.type) {
      case "state":
        this.#state = m.state;
        put(this.said, m.state === "running" ? "connecting…" : m.state);
        break;
      case "stage":
        put(this.said, `resuming: ${m.stage}${m.of ? `, ${bytes(m.bytes)} of ${bytes(m.of)}` : ""}`);
        break;
      case "attached":
        this.#state = "running";
        this.#show(ws, channel, early);
        break;
      case "error":
        put(this.said, [m.problem?.detail, m.problem?.hint].filter(Boolean).join(". "));
        this.#final = [400, 403, 404, 410].includes(m.problem?.status);
        if (m.problem?.status === 401) ended({ text: m.problem.detail, status: 401 });
        break;
    }
    this.#draw();
  }

  async #show(ws, channel, early) {
    let RFB;
    try {
      ({ default: RFB } = await import("/console/vendor/novnc/core/rfb.js"));
    } catch { // the browser doesn't ask for it again
      if (ws !== this.#ws) return;
      this.#leave();
      put(this.said, "The viewer can't be loaded: the gateway doesn't answer. Reload the page.");
      return;
    }
    if (ws !== this.#ws || this.#ends.signal.aborted) return;
    this.screen.hidden = false;
    const rfb = this.#rfb = new RFB(this.view, channel, { shared: true });
    rfb.viewOnly = this.#watching;
    rfb.scaleViewport = true;
    rfb.resizeSession = this.#fits && !this.#watching;
    rfb.background = "transparent";
    rfb.addEventListener("connect", () => {
      this.#tries = 0;
      put(this.said, this.#watching ? "connected, to watch alone" : "connected");
      const canvas = this.view.querySelector("canvas");
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "application");
      canvas.setAttribute("aria-label", `Desktop of ${this.#name}`);
      rfb.focus();
      this.#paste();
      this.#painted(rfb, canvas);
    });
    for (const event of ["credentialsrequired", "securityfailure", "serververification"]) {
      rfb.addEventListener(event, () => {
        put(this.said, "The desktop asks for a password, which isn't supported: start it with -SecurityTypes None.");
        this.#final = true;
        ws.close(1000);
      });
    }
    rfb.addEventListener("clipboard", (e) => {
      if (this.#copies && !this.#watching && document.hasFocus()) navigator.clipboard.writeText(e.detail.text.slice(0, mostCopied)).catch(() => {});
    });
    for (const e of early.splice(0)) channel.onmessage(e);
    this.#draw();
  }

  // painted has the page show the desktop when noVNC has painted it: what it showed last is to be seen until then.
  #painted(rfb, canvas) {
    if (rfb !== this.#rfb) return;
    if (canvas.width && canvas.getContext("2d").getImageData(0, 0, 1, 1).data[3]) {
      this.#live = true;
      this.#draw();
    } else requestAnimationFrame(() => this.#painted(rfb, canvas));
  }

  // keep keeps the picture that is shown, for while there is none.
  #keep() {
    const canvas = this.view.querySelector("canvas");
    if (!this.#live || !canvas?.width || !canvas.height) return;
    this.last.width = canvas.width;
    this.last.height = canvas.height;
    this.last.getContext("2d").drawImage(canvas, 0, 0);
  }

  // drop ends noVNC, which doesn't end the socket then.
  #drop() {
    this.#keep();
    const rfb = this.#rfb;
    this.#rfb = null;
    this.#live = false;
    rfb?.disconnect();
    this.view.replaceChildren();
  }

  #close() {
    const ws = this.#ws;
    this.#ws = null;
    this.#drop();
    ws?.close(1000);
  }

  async #closed({ code, reason }) {
    this.#ws = null;
    this.#drop();
    if (code === 1008) {
      this.#final = true;
      put(this.said, reason);
    } else if (this.#wants && code !== 1011 && !this.#final) put(this.said, "The connection is lost. It is made again.");
    this.#draw();
    if (this.#wants && !this.#final && !this.#asleep) this.#again();
  }

  // again connects by itself, once, to a desktop that is to be seen and isn't.
  #again(wait = Math.min(5_000, 250 * 2 ** this.#tries)) {
    if (!this.#wants || this.#ws || this.#final) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(async () => {
      this.#tries++;
      try {
        await ask("GET", "/whoami", undefined, this.#ends.signal); // a socket doesn't tell that the login has ended
      } catch (e) {
        if (e.status === 401 || e.name === "AbortError") return;
      }
      if (this.#wants && !this.#ws && !this.#final && !this.#asleep && !document.hidden) this.#open(false);
    }, wait);
  }

  #leave() {
    this.#wants = false;
    clearTimeout(this.#retry);
    this.#close();
    put(this.said, "Disconnected: the session sleeps when it isn't used.");
    this.#draw();
    this.connect.focus();
  }

  #toggleWatch() {
    this.#watching = !this.#watching;
    if (this.#ws) this.#open(false); // what may be done is the socket's
    this.#draw();
  }

  #toggleFit() {
    this.#fits = !this.#fits;
    if (this.#rfb) this.#rfb.resizeSession = this.#fits && !this.#watching;
    this.#draw();
  }

  #toggleCopy() {
    this.#copies = !this.#copies;
    this.#draw();
    this.#paste();
  }

  // paste has the desktop know what this browser has copied, if a person wants that.
  async #paste() {
    if (!this.#copies || this.#watching || !this.#rfb || !document.hasFocus()) return;
    try {
      const text = await navigator.clipboard.readText();
      if (text && text.length <= mostCopied) this.#rfb?.clipboardPasteFrom(text);
    } catch {
      put(this.said, "This browser doesn't let the page read the clipboard.");
    }
  }

  // tell says whether the page is visible: only then it is use of the session.
  #tell() {
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify({ type: "visible", visible: !document.hidden }));
  }

  #seen() {
    clearTimeout(this.#hidden);
    this.#tell();
    if (document.hidden) this.#hidden = setTimeout(() => this.#close(), unseen);
    else this.#again(0);
  }
}

// The page of a session.
import { ask } from "./api.js";
import { command, element, fill, put, say, unreachable } from "./dom.js";
import { bytes, idle, inPath, kind, labels, moment, since, span, word } from "./format.js";
import { historyOf, policyOf, portsOf } from "./parts.js";
import { snapshotsOf } from "./snapshots.js";

const every = 2_000; // between two explanations of one that runs
const anyway = 15_000; // and of one that doesn't
const desktopPort = 5900; // where a desktop is that its record doesn't name

// may says which roles may do what; the API is who refuses.
const may = {
  use: ["client", "owner", "operator"],
  own: ["owner", "operator"],
};

export function showSession(main, live, { name, part, me }) {
  const view = new SessionPage(live, name, part, me);
  main.replaceChildren(view.root);
  return view.begin();
}

// bring gives what the files of a part have; where they don't come the part says so.
async function bring(load, part) {
  try {
    return await load();
  } catch {
    fill(part, ["unreachable"], unreachable);
    return {};
  }
}

class SessionPage {
  #live;
  #name;
  #me;
  #part;
  #path;
  #version = 0; // of the session when its parts were read
  #uid = "";
  #explained = null; // {…, readAt}
  #explainedAt = 0;
  #explaining = false;
  #reading = new AbortController();
  #terminal = null;
  #desktop = null;
  #replay = null;

  constructor(live, name, part, me) {
    Object.assign(this, { name });
    this.#live = live;
    this.#name = name;
    this.#me = me;
    this.#part = part;
    this.#path = `/sessions/${inPath(name)}`;
    const section = (title) => {
      const body = element("div", { className: "body" }, element("p", { className: "why", textContent: "Loading…" }));
      return { body, root: element("section", { className: "part", "aria-label": title }, element("h2", { textContent: title }), body) };
    };
    this.head = element("div", { className: "heading" });
    this.notes = element("div", { className: "notes" });
    this.explained = element("p", { className: "explained" });
    this.idleFor = element("span");
    this.bar = element("progress", { max: 1, value: 0, "aria-label": "Idle, of the grace", hidden: true });
    this.blockers = element("ul");
    this.why = element("div", { className: "why-now" }, this.explained, element("p", {}, this.idleFor, this.bar), this.blockers, element("p", {}, command(`diapause explain ${name}`)));
    this.actions = element("div", { className: "actions" });
    this.outcome = element("p", { className: "outcome", role: "status" });
    this.facts = section("About it");
    this.ports = section("Ports");
    this.snapshots = section("Snapshots");
    this.history = section("History");
    this.policy = section("Policy");
    this.terminal = element("section", { className: "part terminal-part", "aria-label": "Terminal" });
    this.absent = element("p", { className: "note", hidden: true });
    const tabs = element("nav", { className: "tabs", "aria-label": "Of this session" },
      [["", "Overview"], ["terminal", "Terminal"], ["desktop", "Desktop"], ["recording", "Recording"]].map(([key, text]) => element("a", { href: `#/s/${encodeURIComponent(name)}${key ? `/${key}` : ""}`, textContent: text, "aria-current": (part ?? "") === key ? "page" : undefined })));
    this.desktopTab = tabs.children[2];
    this.desktop = element("section", { className: "part desktop-part", "aria-label": "Desktop" });
    this.recording = element("section", { className: "part terminal-part", "aria-label": "Recording" });
    const rest = part === "recording" ? [this.recording] : part === "terminal" ? [this.terminal] : part === "desktop" ? [this.desktop] : [this.actions, this.outcome, this.facts.root, this.ports.root, this.history.root, this.snapshots.root, this.policy.root];
    this.root = element("article", { className: "session" }, element("p", {}, element("a", { href: "#/", textContent: "‹ Sessions" })), this.head, this.absent, this.notes, this.why, tabs, rest);
  }

  begin() {
    const unwatch = this.#live.watch((name) => (name === null || name === this.#name) && this.#draw());
    const ticking = setInterval(() => {
      this.#tick();
      this.#explain();
    }, 500);
    this.#draw();
    return {
      end: () => {
        unwatch();
        clearInterval(ticking);
        this.#reading.abort();
        this.#terminal?.end();
        this.#desktop?.end();
        this.#replay?.end();
      },
      title: this.#name,
    };
  }

  get session() {
    return this.#live.sessions.get(this.#name);
  }

  #draw() {
    const s = this.session;
    this.absent.hidden = Boolean(s);
    put(this.absent, s ? "" : this.#live.loaded ? "There is no such session: it was deleted, or never was." : "Loading…");
    for (const e of this.root.children) if (![this.head, this.absent, this.root.firstChild].includes(e)) e.hidden = !s;
    if (!s) {
      fill(this.head, [null], () => element("h1", { textContent: this.#name }));
      return;
    }
    fill(this.head, [s.state, word(s), since(s), s.underway], () => {
      const heading = element("div", { className: "is" }, element("span", { className: "dot", "aria-hidden": "true" }), element("span", { className: kind(s.state) === "paused" ? "badge" : "word", textContent: word(s) }), " ", element("span", { className: "why", textContent: [since(s), s.underway].filter(Boolean).join(" · ") }));
      heading.dataset.kind = kind(s.state);
      return [element("h1", { textContent: this.#name }), heading];
    });
    this.#drawNotes(s);
    this.#drawFacts(s);
    this.#drawActions(s);
    fill(this.ports.body, [s.listens, s.exposed, s.state], () => portsOf(this.#path, s));
    if (this.#part === "terminal") this.#openTerminal(s);
    this.desktopTab.hidden = this.#part !== "desktop" && !s.desktop && !s.listens?.includes(desktopPort);
    if (this.#part === "desktop") this.#openDesktop(s);
    if (this.#part === "recording") this.#openRecording();
    if (s.version !== this.#version || s.uid !== this.#uid) {
      this.#version = s.version;
      this.#uid = s.uid;
      this.#explainedAt = 0;
      if (!["terminal", "desktop", "recording"].includes(this.#part)) this.#readParts();
    }
    this.#tick();
  }

  #drawNotes(s) {
    fill(this.notes, [s.notice, s.failure, s.warnings, s.queue, s.host_gone, s.exit], () => [
      s.notice && element("div", { className: "banner notice", role: "alert" }, element("p", {}, element("b", { textContent: "Session reset — previous conversation has been cleared" })),
        element("p", { textContent: [s.notice.text, s.notice.detail].filter(Boolean).join(" — ") }), this.#button("Dismiss", "use", "POST", "dismiss", {}, `diapause dismiss ${this.#name}`)),
      s.failure && element("div", { className: "banner failure" }, element("p", { textContent: `${s.failure.op} failed: ${s.failure.text}` }), s.failure.hint && element("p", { textContent: s.failure.hint })),
      s.host_gone && element("div", { className: "banner failure", textContent: `Its host ${s.host} is gone since ${moment(s.host_gone)}` }),
      s.queue && element("div", { className: "banner", textContent: `It waits: place ${s.queue.place} of ${s.queue.of} (${s.queue.limit})${s.queue.reason ? `: ${s.queue.reason}` : ""}` }),
      s.exit && ["exited", "failed"].includes(s.state) && element("div", { className: "banner", textContent: `It exited with ${s.exit.code}${s.exit.reason ? `: ${s.exit.reason}` : ""}` }),
      (s.warnings ?? []).length > 0 && element("details", { className: "banner warnings" }, element("summary", { textContent: `${s.warnings.length} ${s.warnings.length === 1 ? "warning" : "warnings"} of its last operations` }),
        element("ul", {}, s.warnings.map((w) => element("li", { textContent: `${w.text}${w.subject ? ` (${w.subject})` : ""}, ${moment(w.at)}` })))),
    ]);
  }

  #drawFacts(s) {
    const facts = {
      Program: s.program, Class: s.class, Host: s.host, Driver: s.driver, Memory: s.rss_bytes ? `${bytes(s.rss_bytes)} in ${s.processes} ${s.processes === 1 ? "process" : "processes"}` : "",
      Stored: s.stored_bytes ? bytes(s.stored_bytes) : "", Labels: labels(s), Network: s.network, Image: s.root?.image ?? s.root?.ref, Origin: s.origin ? `${s.origin.session}, snapshot ${s.origin.snapshot}` : "",
      "More than usual": (s.loosened ?? []).join("; "), Booted: s.boot, Generation: String(s.generation ?? ""), Created: moment(s.created), Id: s.uid,
    };
    fill(this.facts.body, facts, () => element("dl", {}, Object.entries(facts).filter(([, v]) => v).map(([k, v]) => element("div", {}, element("dt", { textContent: k }), element("dd", { textContent: v })))));
  }

  #drawActions(s) {
    const n = this.#name;
    const held = this.#explained?.blockers?.some((b) => b.kind === "lease" && b.subject === "hold.cli");
    fill(this.actions, [s.state, held, s.tty], () => [
      s.state === "running" && this.#button("Suspend now", "use", "POST", "suspend", {}, `diapause suspend ${n}`),
      s.state === "running" && this.#button("Keep awake for 1 h", "use", "POST", "activity", { kind: "hold", key: "cli", ttl: "1h", reason: "kept awake in the console" }, `diapause hold ${n} --for 1h --reason "kept awake in the console"`),
      held && this.#button("Let it sleep again", "use", "POST", "activity", { kind: "hold", key: "cli", released: true }, `diapause release ${n}`),
      s.state === "suspended" && this.#button("Resume", "use", "POST", "resume", {}, `diapause resume ${n}`),
      ["running", "suspended"].includes(s.state) && this.#fork(),
      s.tty && element("div", { className: "action" }, element("a", { className: "button", href: `#/s/${encodeURIComponent(n)}/terminal`, textContent: "Terminal" }), command(`diapause attach ${n}`)),
    ]);
  }

  // button does something with the session, and shows the command that does the same.
  #button(text, right, method, verb, body, line) {
    const b = element("button", { type: "button", textContent: text });
    this.#limit(b, right);
    b.onclick = () => this.#act(b, text, () => ask(method, `${this.#path}/${verb}`, body));
    return element("div", { className: "action" }, b, command(line));
  }

  #limit(b, right) {
    if (this.#me.role && !may[right].includes(this.#me.role)) {
      b.disabled = true;
      b.title = `not with the role ${this.#me.role}`;
    }
  }

  #fork() {
    const tenant = this.#name.includes("/") ? `${this.#name.split("/")[0]}/` : "";
    const to = element("input", { value: `${this.#name}-fork`, "aria-label": "Name of the fork", size: 16, spellcheck: false, autocomplete: "off", pattern: "([A-Za-z0-9_\\-]{1,64}/)?[A-Za-z0-9_\\-]{1,64}" });
    const b = element("button", { textContent: "Fork" });
    this.#limit(b, "own");
    const line = element("div", {}, command(`diapause fork ${this.#name} ${to.value}`));
    to.oninput = () => line.replaceChildren(command(`diapause fork ${this.#name} ${to.value}`));
    const form = element("form", { className: "action" }, b, to, line);
    form.onsubmit = (e) => {
      e.preventDefault();
      const name = to.value.includes("/") ? to.value : tenant + to.value;
      this.#act(b, `Fork as ${name}`, async () => {
        await ask("POST", `${this.#path}/fork`, { to: name });
        if (this.root.isConnected) location.hash = `#/s/${encodeURIComponent(name)}`;
      });
    };
    return form;
  }

  // ofSnapshots is what the snapshots' part takes of this page.
  #ofSnapshots() {
    const name = this.#name;
    return {
      name, path: this.#path, tenant: name.includes("/") ? `${name.split("/")[0]}/` : "",
      may: (b, right) => this.#limit(b, right),
      act: async (b, what, act) => {
        await this.#act(b, what, act);
        if (this.root.isConnected) this.#readParts(); // a snapshot that is deleted is no transition
      },
      forks: () => [...this.#live.sessions.values()].filter((s) => s.origin?.session === name),
    };
  }

  async #act(b, what, act) {
    b.disabled = true;
    put(this.outcome, `${what}…`);
    this.outcome.className = "outcome";
    try {
      await act();
      put(this.outcome, `${what}: done.`);
      this.#explainedAt = 0;
      this.#live.refresh(this.#name);
    } catch (e) {
      this.outcome.className = "outcome failed";
      put(this.outcome, `${what}: ${e.text ?? e.message}.`);
    }
    b.disabled = false;
  }

  // explain reads why it is (not) suspended: often while it runs, for what is in use changes without a transition.
  async #explain() {
    const s = this.session;
    if (!s || document.hidden || this.#explaining || !this.#live.live || Date.now() - this.#explainedAt < (s.state === "running" ? every : anyway)) return;
    this.#explaining = true;
    this.#explainedAt = Date.now();
    try {
      const readAt = Date.now();
      this.#explained = { ...await ask("GET", `${this.#path}/explain`, undefined, this.#reading.signal), readAt };
      if (s.state === "running") this.#live.refresh(this.#name);
    } catch (e) {
      if (e.name !== "AbortError" && e.status !== 404) this.#explained = { text: e.text ?? e.message, blockers: [], readAt: Date.now() };
    }
    this.#explaining = false;
    if (this.session) this.#drawActions(this.session);
    this.#tick();
  }

  // tick shows what changes by itself: the time.
  #tick() {
    const s = this.session;
    const x = this.#explained;
    if (!s) return;
    const seconds = idle(s);
    const grace = (x?.grace_ms ?? 0) / 1000;
    put(this.explained, x?.text ?? "");
    fill(this.blockers, (x?.blockers ?? []).map((b) => b.what), () => x?.blockers?.map((b) => element("li", { textContent: b.what })));
    const counts = seconds !== undefined && grace > 0;
    put(this.idleFor, seconds === undefined ? "" : `idle for ${span(seconds)}${counts ? ` of ${span(grace)}` : ""}`);
    this.bar.hidden = !counts;
    if (counts) this.bar.value = Math.min(1, seconds / grace);
  }

  // readParts reads what a transition may have changed.
  async #readParts() {
    this.#reading.abort();
    const { signal } = this.#reading = new AbortController();
    await Promise.all([
      historyOf(this.history.body, this.#path, this.#name, signal),
      snapshotsOf(this.snapshots.body, this.#ofSnapshots(), signal),
      policyOf(this.policy.body, this.#name, signal),
    ]);
  }

  async #openRecording() {
    if (this.#replay) return;
    const { ReplayPane } = await bring(() => import("./replay.js"), this.recording);
    if (ReplayPane && !this.#replay && this.root.isConnected) this.#replay = new ReplayPane(this.recording, this.#name);
  }

  async #openTerminal(s) {
    if (this.#terminal) {
      this.#terminal.state(s);
      return;
    }
    const { TerminalPane } = await bring(() => import("./terminal.js"), this.terminal);
    if (!TerminalPane || this.#terminal || !this.root.isConnected) return;
    this.#terminal = new TerminalPane(this.terminal, this.#name, this.#me);
    this.#terminal.state(this.session ?? s);
    say("Terminal");
  }

  async #openDesktop(s) {
    if (this.#desktop) {
      this.#desktop.state(s);
      return;
    }
    const { DesktopPane } = await bring(() => import("./desktop.js"), this.desktop);
    if (!DesktopPane || this.#desktop || !this.root.isConnected) return;
    this.#desktop = new DesktopPane(this.desktop, this.#name, this.#me);
    this.#desktop.state(this.session ?? s);
    say("Desktop");
  }
}

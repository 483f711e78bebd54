// Plays the recording of a session's terminal. Of a large one the page holds the part that is played: it is read from a moment on,
// and the reading ends when enough is ahead.
import { ask, open } from "./api.js";
import { command, element, fill, put, say } from "./dom.js";
import { inPath, moment, span } from "./format.js";
import { intervals } from "./timeline.js";
import { load, readable, theme } from "./xterm.js";

const enough = 4 << 20; // characters that are read ahead
const few = 512 << 10; // with fewer it is read on
const wide = 1000; // steps of the scrubber
const mostText = 256 << 10; // characters of output and logs that are shown
const mostRead = 4 << 20; // and read for that

// Track knows which frames are needed: those where output is missing, as events/screen has it.
class Track {
  #at = 0;
  #lost = false;
  #within = false;
  #needed = false;

  // event gives "size" for a frame's beginning that is needed, "paint" for what follows of it, "" for others that are passed over.
  event({ at, code }, length, gap) {
    const first = code === "k" && !this.#within;
    this.#within = code === "k";
    if (["o", "e", "g", "k"].includes(code) && this.#at !== at) [this.#at, this.#lost] = [at, true];
    if (code === "o" || code === "e") this.#at += length;
    if (code === "g") [this.#at, this.#lost] = [at + gap, true];
    if (first) {
      this.#needed = this.#lost;
      this.#lost = false;
      return this.#needed ? "size" : "";
    }
    return this.#within && this.#needed ? "paint" : "";
  }
}

const dataOf = (e) => (e.base64 ? Uint8Array.from(atob(e.base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(e.text ?? ""));

// textOf gives the first part of an answer that is text.
async function textOf(path, signal) {
  const r = await open(path, signal);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let read = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return { text, cut: read > text.length };
    read += value.length;
    text = (text + value).slice(-mostText);
    if (read > mostRead) {
      reader.cancel();
      return { text, cut: true };
    }
  }
}

const printed = (text) => element("pre", { className: "printed", tabIndex: 0, role: "region", "aria-label": "What was printed" }, text.replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, " "));

export class ReplayPane {
  #path;
  #name;
  #ends = new AbortController();
  #reading = null; // ends what is read now
  #more = false; // there may be more after what was read
  #queue = []; // events that were read, and not played
  #queued = 0; // characters
  #term = null;
  #track;
  #playing = false;
  #due = 0;
  #at = 0; // time of the recording, in ms
  #last = null; // the event that was read last: {time, at}
  #spans = []; // that it ran
  #turn = 0;

  constructor(root, name) {
    this.#name = name;
    this.#path = `/sessions/${inPath(name)}`;
    this.play = element("button", { type: "button", className: "main", textContent: "Play" });
    this.play.onclick = () => (this.#playing ? this.#pause() : this.#start());
    this.slider = element("input", { type: "range", min: 0, max: wide, value: 0, "aria-label": "Moment of the recording" });
    this.slider.onchange = () => this.#seek(this.#timeOf(Number(this.slider.value)));
    this.marks = element("datalist", { id: "marks" });
    this.slider.setAttribute("list", "marks");
    const choice = (label, values, value) => element("select", { "aria-label": label }, values.map(([v, text]) => element("option", { value: v, textContent: text, selected: v === value })));
    this.speed = choice("Speed", [[0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"], [16, "16×"]], 1);
    this.limit = choice("Idle limit", [[500, "wait ½ s at most"], [2000, "wait 2 s at most"], [10000, "wait 10 s at most"], [0, "wait as it was"]], 2000);
    this.said = element("span", { className: "said", role: "status" });
    this.screen = element("div", { className: "screen replay-screen", hidden: true, tabIndex: 0, role: "region", "aria-label": "The recording" });
    this.commands = element("div", {});
    this.logs = element("div", {});
    const read = element("button", { type: "button", textContent: "Show the last 10 minutes" });
    read.onclick = () => this.#show(this.logs, `${this.#path}/recording?format=text&since=10m`);
    root.replaceChildren(element("h2", { className: "unseen", textContent: "Recording" }),
      element("div", { className: "bar" }, this.play, this.speed, this.limit, this.said), element("div", { className: "scrub" }, this.slider, this.marks), this.screen,
      element("p", { className: "why" }, "To look at it resumes nothing. ", command(`diapause replay ${name}`)),
      element("section", { className: "part", "aria-label": "Commands" }, element("h2", { textContent: "Commands" }), this.commands, element("p", {}, command(`diapause commands ${name}`))),
      element("section", { className: "part", "aria-label": "Logs" }, element("h2", { textContent: "Logs" }), element("p", {}, read, " ", command(`diapause export --format text --since 10m ${name}`)), this.logs));
    this.#begin();
  }

  end() {
    this.#ends.abort();
    this.#reading?.abort();
    clearTimeout(this.#due);
    this.#term?.dispose();
  }

  async #begin() {
    const { signal } = this.#ends;
    const history = await ask("GET", `${this.#path}/history`, undefined, signal).catch(() => []);
    this.#spans = intervals(history).filter((i) => i.kind === "running" && i.to > i.from);
    this.#at = this.#spans[0]?.from ?? 0;
    try {
      const { commands } = await ask("GET", `${this.#path}/commands?limit=200`, undefined, signal);
      this.#showCommands(commands);
    } catch (e) {
      if (!signal.aborted) this.commands.replaceChildren(element("p", { className: "failed", textContent: `${e.text ?? e.message}.` }));
    }
  }

  #showCommands(commands) {
    this.marks.replaceChildren(...commands.map((c) => element("option", { value: this.#stepOf(Date.parse(c.began)), label: c.text.slice(0, 40) })));
    if (commands.length === 0) {
      this.commands.replaceChildren(element("p", { textContent: "None is known: bash, zsh and fish say where commands begin, in a terminal that is recorded." }));
      return;
    }
    this.commands.replaceChildren(element("ol", { className: "commands" }, commands.map((c) => {
      const out = element("div", {});
      const details = element("details", {}, element("summary", {}, element("code", { textContent: c.text }), " ", element("span", { className: c.exit ? "failed" : "why", textContent: [moment(c.began), c.exit === undefined ? "" : `status ${c.exit}`, c.by].filter(Boolean).join(" · ") })), out);
      details.ontoggle = () => { if (details.open && !out.firstChild) this.#show(out, `${this.#path}/commands/${c.number}/output`); };
      const to = element("button", { type: "button", textContent: "Play from here", "aria-label": `Play from here: ${c.text}` });
      to.onclick = async () => { if (await this.#seek(Date.parse(c.began))) this.#start(); };
      return element("li", {}, details, to);
    })));
  }

  // show reads text into an element.
  async #show(into, path) {
    fill(into, ["reading", Date.now()], () => element("p", { textContent: "Reading…" }));
    try {
      const { text, cut } = await textOf(path, this.#ends.signal);
      into.replaceChildren(...[cut && element("p", { className: "why", textContent: "A part of it:" }), text ? printed(text) : element("p", { textContent: "Nothing was printed." })].filter(Boolean));
    } catch (e) {
      if (!this.#ends.signal.aborted) into.replaceChildren(element("p", { className: "failed", textContent: `${e.text ?? e.message}.` }));
    }
  }

  // The scrubber has the time that the session ran: it passes over suspends.
  get #ran() {
    return this.#spans.reduce((n, i) => n + i.to - i.from, 0) || 1;
  }

  #timeOf(step) {
    let left = step / wide * this.#ran;
    for (const i of this.#spans) {
      if (left <= i.to - i.from) return i.from + left;
      left -= i.to - i.from;
    }
    return this.#spans.at(-1)?.to ?? 0;
  }

  #stepOf(time) {
    const before = this.#spans.reduce((n, i) => n + Math.min(Math.max(0, time - i.from), i.to - i.from), 0);
    return Math.round(before / this.#ran * wide);
  }

  // It gives whether it could be read; why not is shown.
  async #seek(time) {
    const turn = ++this.#turn;
    clearTimeout(this.#due);
    this.#reading?.abort();
    [this.#queue, this.#queued, this.#last, this.#at, this.#track] = [[], 0, null, time, new Track()];
    put(this.said, "reading…");
    if (!this.#term) {
      const { Terminal } = await load();
      if (this.#term || this.#ends.signal.aborted || turn !== this.#turn) return false;
      this.screen.hidden = false;
      this.#term = new Terminal({ fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", fontSize: 14, scrollback: 1000, theme: theme(), disableStdin: true, minimumContrastRatio: readable, linkHandler: { activate() {} } });
      this.#term.open(this.screen);
      this.#term.textarea.tabIndex = -1;
    }
    this.#term.reset();
    const read = await this.#read(new Date(time).toISOString(), turn);
    if (!read || turn !== this.#turn) return false;
    while (this.#queue.length > 0 && Date.parse(this.#queue[0].time) <= time) this.#apply(this.#next());
    this.#place();
    if (this.#playing) this.#step();
    return true;
  }

  // read reads on from a moment, until enough is ahead. What was read before comes again, and is passed over.
  async #read(from, turn) {
    const reading = this.#reading = new AbortController();
    this.#more = false;
    let read = true;
    try {
      const r = await open(`${this.#path}/recording?format=jsonl&from=${encodeURIComponent(from)}`, reading.signal);
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      const after = this.#last;
      for (;;) {
        const { value, done } = await reader.read();
        if (done || turn !== this.#turn) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) this.#take(line, after);
        if (this.#queued > enough) {
          this.#more = true;
          break;
        }
      }
    } catch (e) {
      read = false;
      if (!reading.signal.aborted) put(this.said, `${e.text ?? e.message}.`);
      if (turn === this.#turn && !reading.signal.aborted) this.#playing = false;
    }
    reading.abort();
    if (this.#reading === reading) this.#reading = null;
    put(this.play, this.#playing ? "Pause" : "Play");
    return read;
  }

  #take(line, after) {
    const e = JSON.parse(line);
    if (e.code === "from" || after && (e.at < after.at || e.at === after.at && Date.parse(e.time) <= Date.parse(after.time))) return;
    this.#queue.push(e);
    this.#queued += line.length;
    e.size = line.length;
    this.#last = e;
  }

  #next() {
    const e = this.#queue.shift();
    this.#queued -= e.size;
    return e;
  }

  #apply(e) {
    const data = dataOf(e);
    const frame = this.#track.event(e, data.length, e.code === "g" ? Number(e.text) || 0 : 0);
    this.#at = Math.max(this.#at, Date.parse(e.time) || 0);
    const size = (text) => {
      const [cols, rows] = text.split("x").map(Number);
      if (cols > 0 && rows > 0 && cols <= 1000 && rows <= 1000) this.#term.resize(cols, rows);
    };
    if (e.code === "r") size(e.text ?? "");
    else if (frame === "size") {
      const end = data.indexOf(10);
      this.#term.reset();
      size(new TextDecoder().decode(data.subarray(0, Math.max(0, end))));
      this.#term.write(data.subarray(end + 1));
    } else if (frame === "paint" || e.code === "o" || e.code === "e") this.#term.write(data);
  }

  async #start() {
    this.#playing = true;
    put(this.play, "Pause");
    if (!this.#track || this.#queue.length === 0 && !this.#more) await this.#seek(this.#queue.length === 0 && this.#last ? this.#spans[0]?.from ?? 0 : this.#at);
    else this.#step();
  }

  #pause() {
    this.#playing = false;
    clearTimeout(this.#due);
    put(this.play, "Play");
  }

  // step plays what is due, and waits for what comes next.
  #step() {
    clearTimeout(this.#due);
    const turn = this.#turn;
    if (!this.#playing || this.#ends.signal.aborted) return;
    if (this.#more && this.#queued < few && !this.#reading) this.#read(this.#last.time, turn).then(() => turn === this.#turn && this.#step());
    if (this.#queue.length === 0) {
      if (this.#reading) return;
      this.#pause();
      put(this.said, this.#last ? `the end, ${moment(this.#at)}` : "Nothing was recorded from here on.");
      say("The recording has ended");
      return;
    }
    const e = this.#queue[0];
    let wait = Math.max(0, Date.parse(e.time) - this.#at);
    if (Number(this.limit.value)) wait = Math.min(wait, Number(this.limit.value));
    this.#due = setTimeout(() => {
      if (turn !== this.#turn || !this.#playing) return;
      let n = 0;
      do this.#apply(this.#next()); while (++n < 200 && this.#queue.length > 0 && Date.parse(this.#queue[0].time) - this.#at < 8);
      this.#place();
      this.#step();
    }, wait / Number(this.speed.value));
  }

  #place() {
    this.slider.value = this.#stepOf(this.#at);
    const text = `${moment(this.#at)}, ${span(this.#stepOf(this.#at) / wide * this.#ran / 1000)} of ${span(this.#ran / 1000)} that it ran`;
    this.slider.setAttribute("aria-valuetext", text);
    put(this.said, text);
  }
}

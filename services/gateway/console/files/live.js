// Keeps all sessions as their records are: read once, then changed as the log's stream tells it. To look is no use of a
// session, and wakes none.
import { Problem, ask, ended, follow } from "./api.js";
import { inPath } from "./format.js";

const pageSize = 400;
const silence = 40_000; // ms without a sign of life: the API gives one every 15 s
const unseen = 60_000; // ms after which a page that isn't visible takes no stream
const atOnce = 4; // sessions that are read at the same time
const tooMany = 100; // of more, all are read
const tooOften = 429; // the status of what is asked for more often than the API takes

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Live {
  sessions = new Map();
  loaded = false; // all were read, once
  live = false;
  heardAt = Date.now(); // when the API was heard last
  problem = null; // why it isn't live

  #watchers = new Set();
  #last = ""; // the place in the log
  #stop = null; // ends the stream
  #stopped = false;
  #changed = new Set(); // names that are to be read
  #reading = 0;
  #touched = null; // while all are read: the names that the stream told of meanwhile
  #gone = new Set(); // uids of sessions that were deleted
  #wake = () => {};

  // watch calls fn with the name of a session that has changed, or null if all may have, or liveness has.
  watch(fn) {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  #tell(name) {
    for (const fn of this.#watchers) fn(name);
  }

  // run goes on until stop is called.
  async run() {
    const watchdog = setInterval(() => {
      if (this.live && Date.now() - this.heardAt > silence) this.#stop?.abort();
    }, 5_000);
    let hidden;
    const seen = () => {
      clearTimeout(hidden);
      if (document.hidden) hidden = setTimeout(() => this.#stop?.abort(), unseen);
      else this.#wake();
    };
    const now = () => this.#wake();
    document.addEventListener("visibilitychange", seen);
    addEventListener("online", now);
    for (let tries = 0; !this.#stopped; tries++) {
      try {
        await this.#once(() => { tries = 0; });
      } catch (e) {
        this.problem = e;
      }
      this.live = false;
      this.#tell(null);
      if (this.#stopped) break;
      const woken = new Promise((done) => { this.#wake = done; });
      await (document.hidden ? woken : Promise.race([woken, pause(Math.min(10_000, 500 * 2 ** tries))]));
    }
    clearInterval(watchdog);
    clearTimeout(hidden);
    document.removeEventListener("visibilitychange", seen);
    removeEventListener("online", now);
  }

  stop() {
    this.#stopped = true;
    this.#stop?.abort();
    this.#wake();
  }

  // once follows the stream until it ends. What it had before is read again: the page shows the records, also after a gap.
  async #once(works) {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    let read = null;
    const failed = new Promise((_, fail) => {
      follow("/events", {
        last: this.#last, signal,
        heard: () => { this.heardAt = Date.now(); },
        take: (event) => {
          if (event.id) this.#last = event.id;
          if (event.event === "error") {
            const p = JSON.parse(event.data);
            if (p.status === 401) ended(new Problem(401, p));
            fail(new Problem(p.status, p));
            this.#stop.abort();
            return;
          }
          if (event.event === "transition") this.#apply(JSON.parse(event.data));
          // The stream stands: what is read from now on is as new as it, or newer.
          if (event.event === "gap" || !read) {
            read = this.#readAll(signal).then(() => {
              this.live = this.loaded = true;
              this.problem = null;
              works();
              this.#tell(null);
            }, (e) => { fail(e); this.#stop.abort(); });
          }
        },
      }).catch(fail);
    });
    try {
      await failed;
    } finally {
      this.#stop.abort();
      this.#touched = null;
    }
  }

  async #readAll(signal) {
    const touched = this.#touched = new Set();
    const there = new Set();
    let after = "";
    do {
      const readAt = Date.now();
      const part = await ask("GET", `/sessions?limit=${pageSize}${after ? `&after=${encodeURIComponent(after)}` : ""}`, undefined, signal);
      for (const s of part.sessions) {
        there.add(s.name);
        // What the stream hasn't told of is as it is read, also if that is older: NATS may have been restored.
        if (!touched.has(s.name)) this.sessions.set(s.name, { ...s, readAt });
        else this.#put({ ...s, readAt });
      }
      after = part.next;
      if (after && !this.loaded) this.#tell(null); // the first page is shown before the last has come
    } while (after);
    if (this.#touched !== touched) return; // a later one reads
    this.#touched = null;
    for (const name of this.sessions.keys()) {
      if (!there.has(name) && !touched.has(name)) this.sessions.delete(name);
    }
    this.heardAt = Date.now();
  }

  // put takes a session as it was read, unless more is known of it.
  #put(s) {
    const has = this.sessions.get(s.name);
    if (this.#gone.has(s.uid) || has && has.uid === s.uid && has.version > s.version) return false;
    this.sessions.set(s.name, s);
    return true;
  }

  // apply changes a session as a transition says, at once; the rest is read.
  #apply({ name, tenant, uid, class: ofClass, host, transition: t }) {
    this.#touched?.add(name);
    const has = this.sessions.get(name);
    if (t.state === "deleted") {
      if (this.#gone.size > 10_000) this.#gone.clear(); // what was asked for before has come since
      this.#gone.add(uid);
      if (!has || has.uid === uid) this.sessions.delete(name);
      this.#tell(name);
      return;
    }
    if (has?.uid === uid && has.version >= t.version) return;
    const was = has?.uid === uid ? has : { name, tenant, uid, since: t.at, created: t.at, program: "", driver: "", idle_seconds: 0, rss_bytes: 0, stored_bytes: 0 };
    const now = { ...was, class: ofClass, host, version: t.version, state: t.state, last_transition: t, readAt: Date.now() };
    if (was.state !== t.state) {
      Object.assign(now, { since: t.at, status: undefined, pausedAt: undefined, pauseReason: undefined, pause: undefined, op: undefined, archived: undefined });
      if (t.state !== "running") Object.assign(now, { rss_bytes: 0, processes: 0 });
    }
    this.sessions.set(name, now);
    this.#tell(name);
    this.refresh(name);
  }

  // refresh reads a session again, soon.
  refresh(name) {
    this.#changed.add(name);
    while (this.#reading < atOnce && this.#changed.size > 0) this.#readChanged();
  }

  async #readChanged() {
    this.#reading++;
    const all = this.#changed.size > tooMany;
    const names = all ? [...this.#changed] : [...this.#changed].slice(0, 1);
    for (const name of names) this.#changed.delete(name);
    try {
      if (all) {
        await this.#readAll(this.#stop?.signal);
        this.#tell(null);
      } else {
        await this.#read(names[0]);
      }
    } catch (e) {
      if (e.status === tooOften) { // for now: the stream goes on meanwhile
        for (const name of names) this.#changed.add(name);
        await pause(1_000);
      } else {
        this.#stop?.abort(); // all is read when the stream is back
      }
    } finally {
      this.#reading--;
      if (this.#changed.size > 0 && this.#reading < atOnce) queueMicrotask(() => this.#changed.size > 0 && this.#readChanged());
    }
  }

  async #read(name) {
    const readAt = Date.now();
    try {
      const s = await ask("GET", `/sessions/${inPath(name)}`, undefined, this.#stop?.signal);
      this.#touched?.add(name);
      if (this.#put({ ...s, readAt })) this.#tell(name);
    } catch (e) {
      if (e.status !== 404) throw e;
      this.sessions.delete(name);
      this.#tell(name);
    }
  }
}

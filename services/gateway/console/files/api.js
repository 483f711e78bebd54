// Asks the API as the login of this browser: a cookie, which no script sees, and with it what the page keeps.
import { heard } from "./clock.js";

const prefix = "/api/v1";

// page is what the login page has kept.
export const page = () => localStorage.getItem("diapause-page") ?? "";

// Problem is an error as the API tells it; status is 0 where no answer came.
export class Problem extends Error {
  constructor(status, { detail, hint, reason } = {}) {
    super(detail ?? `status ${status}`);
    Object.assign(this, { status, hint, reason });
  }

  get text() {
    return [this.message, this.hint].filter(Boolean).join(". ");
  }
}

const enders = new Set();

// onEnd calls fn when the API says that the login has ended.
export function onEnd(fn) {
  enders.add(fn);
}

export function ended(problem) {
  for (const fn of enders) fn(problem);
}

// send gives an answer as it comes, or throws a Problem.
export async function send(method, path, { body, signal, headers = {} }) {
  const all = { Accept: "application/json", "Diapause-Page": page(), ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  let r;
  try {
    r = await fetch(prefix + path, { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), redirect: "error", credentials: "same-origin", cache: "no-store", signal });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Problem(0, { detail: "the gateway doesn't answer" });
  }
  heard(r.headers.get("Date"));
  if (r.ok) return r;
  const problem = new Problem(r.status, await r.json().catch(() => ({})));
  if (r.status === 401) ended(problem);
  throw problem;
}

// ask gives the JSON of an answer, or throws a Problem.
export async function ask(method, path, body, signal) {
  const r = await send(method, path, { body, signal });
  try {
    return await r.json();
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Problem(0, { detail: "the answer was cut" });
  }
}

// open gives the answer to a question whose body is read as it comes.
export const open = (path, signal) => send("GET", path, { signal });

// follow reads a stream of server-sent events until it ends, which is an error: take gets each event, heard is called
// for each sign of life.
export async function follow(path, { last, signal, heard, take }) {
  const headers = { Accept: "text/event-stream" };
  if (last) headers["Last-Event-ID"] = last;
  const r = await send("GET", path, { signal, headers });
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Problem(0, { detail: "the stream has ended" });
    heard();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.id !== undefined || event.data !== undefined) take(event);
        event = {};
        continue;
      }
      const colon = line.indexOf(":");
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
    }
  }
}

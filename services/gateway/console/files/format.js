// Words for what the API says.
import { now as there } from "./clock.js";

const units = [["d", 86400], ["h", 3600], ["m", 60]];

// span writes seconds as a duration of two parts at most: "3d 4h", "12s".
export function span(seconds) {
  let rest = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of units) {
    if (rest >= size || parts.length) parts.push(`${Math.floor(rest / size)}${unit}`);
    rest %= size;
  }
  parts.push(`${rest}s`);
  return parts.slice(0, 2).join(" ");
}

// bytes writes a size in the units of 1024.
export function bytes(n) {
  if (!n) return "0 B";
  const power = Math.min(4, Math.floor(Math.log2(n) / 10));
  const value = n / 1024 ** power;
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

// moment writes a time: that of today without its day.
export function moment(at) {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return "";
  return d.toDateString() === new Date(there()).toDateString() ? d.toLocaleTimeString() : d.toLocaleString();
}

// day writes a day in UTC.
export const day = (at) => new Date(at).toLocaleDateString(undefined, { timeZone: "UTC", month: "short", day: "numeric" });

// number writes one with as many digits as it is worth.
export function number(n) {
  return n === 0 || n >= 100 ? String(Math.round(n)) : n < 0.01 ? "<0.01" : String(Number(n.toPrecision(3)));
}

// lasting writes a duration of Go's, "720h0m0s", as a person does, "30d"; what is none stays as it is.
export function lasting(text) {
  const [, h, m, s] = /^(?:(\d+)h)?(?:(\d+)m)?(\d+)s$/.exec(text) ?? [];
  if (s === undefined) return text;
  if (s !== "0" || !h && !m) return text;
  if (Number(m) > 0) return `${h ? `${h}h` : ""}${m}m`;
  return h && h % 24 === 0 ? `${h / 24}d` : h ? `${h}h` : text;
}

// said writes a part of a policy.
export function said(value) {
  if (Array.isArray(value)) return value.length ? value.map(said).join(", ") : "none";
  if (value && typeof value === "object") return Object.entries(value).map(([k, v]) => `${k} ${said(v)}`).join(", ");
  return lasting(String(value));
}

// word is a session's state for a person, and kind the colour of its dot.
export function word(s) {
  if (s.archived) return "archived";
  if (s.state === "suspended") return "paused";
  if (s.state === "running" && s.status) return s.status;
  return s.state;
}

export function kind(state) {
  switch (state) {
    case "running": return "running";
    case "suspended": return "paused";
    case "failed": return "failed";
    case "exited": case "deleted": return "over";
    default: return "changing";
  }
}

// since says why and since when it is paused, or since when it is what it is.
export function since(s) {
  const reason = s.state === "suspended" ? s.pauseReason ?? s.pause?.reason : s.op && s.state === "running" ? s.op : "";
  return [reason, `since ${moment(s.pausedAt ?? s.since)}`].filter(Boolean).join(" ");
}

export function labels(s) {
  return Object.entries(s.labels ?? {}).map(([k, v]) => (v ? `${k}=${v}` : k)).join(" ");
}

// idle is for how many seconds a running session wasn't used, counted on from when that was read; undefined for others.
export function idle(s, now = Date.now()) {
  return s.state === "running" ? (s.idle_seconds ?? 0) + Math.max(0, now - s.readAt) / 1000 : undefined;
}

// inPath is a session's name in a path of the API.
export const inPath = (name) => name.replace("/", ".");

// order compares names as the API orders them: by tenant, then by name.
export function order(a, b) {
  const [x, y] = a.tenant === b.tenant ? [a.name, b.name] : [a.tenant ?? "", b.tenant ?? ""];
  return x < y ? -1 : x > y ? 1 : 0;
}

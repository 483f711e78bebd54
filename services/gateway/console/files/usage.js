// Usage over days: how long sessions ran and slept, what memory that took and saved, and what their images take.
import { ask } from "./api.js";
import { overDays } from "./charts.js";
import { command, element, fill } from "./dom.js";
import { bytes, number, span } from "./format.js";
import { Page, field, table } from "./admin.js";

const aDay = 86_400_000;
const spans = [7, 30, 90, 365];
const most = 20; // sessions that are listed

// wanted is what was asked for last.
const wanted = { days: 30, tenant: "" };

const gibHours = (byteSeconds) => byteSeconds / 2 ** 30 / 3600;
const hours = (seconds) => seconds / 3600;
const sayGibHours = (n) => (n > 0 && n < 0.01 ? `${number(n * 1024)} MiB h` : `${number(n)} GiB h`);
const sayHours = (n) => `${number(n)} h`;

export function showUsage(main, live, { me }) {
  const page = new Page(main, "Usage", "What sleeping saves: the memory that sessions used and didn't use, and what their images take, by days in UTC.");
  const days = element("select", {}, spans.map((n) => element("option", { value: n, textContent: `${n} days`, selected: n === wanted.days })));
  const tenant = element("select", {}, element("option", { value: "", textContent: "all" }));
  const line = element("p");
  page.root.append(element("form", { className: "filters" }, field("Of the last", days), !me?.tenant && field("Tenant", tenant)), line);
  const body = page.section("By day");
  const all = page.section("By tenant");
  const sessions = page.section("By session");
  const read = () => {
    const since = `${wanted.days - 1}d`; // and the part of today
    const q = new URLSearchParams({ by: "day", since, ...wanted.tenant && { tenant: wanted.tenant } });
    fill(line, [wanted], () => command(`diapause usage --by day --since ${since}${wanted.tenant ? ` --tenant ${wanted.tenant}` : ""}`));
    const answer = ask("GET", `/usage?${q}`, undefined, page.signal);
    page.reads(body, () => answer, (u) => byDay(u));
    page.reads(all, () => answer, (u) => {
      tenants(tenant, u);
      return byTenant(u);
    });
    page.reads(sessions, () => answer, (u) => bySession(u));
  };
  days.onchange = () => {
    wanted.days = Number(days.value);
    read();
  };
  tenant.onchange = () => {
    wanted.tenant = tenant.value;
    read();
  };
  read();
  return page;
}

// tenants has the filter offer those that there are.
function tenants(select, u) {
  const known = new Set([...select.options].map((o) => o.value));
  for (const name of [wanted.tenant, ...u.tenants.map((t) => t.tenant)]) {
    if (!known.has(name)) select.append(element("option", { value: name, textContent: name }));
  }
  select.value = wanted.tenant;
}

// daysOf gives every day that was asked for, those without use too.
export function daysOf(u) {
  const all = [];
  for (let at = Date.parse(u.from); at < Date.parse(u.to); at += aDay) {
    all.push({ at, running: 0, suspended: 0, used: 0, saved: 0, stored: 0, suspends: 0, resumes: 0, wakes: 0 });
  }
  for (const d of u.days ?? []) {
    const one = all[Math.floor((Date.parse(d.from) - Date.parse(u.from)) / aDay)];
    if (!one) continue;
    one.running += hours(d.running_seconds);
    one.suspended += hours(d.suspended_seconds);
    one.used += gibHours(d.used_byte_seconds);
    one.saved += gibHours(d.saved_byte_seconds);
    one.stored += d.stored_bytes;
    one.suspends += d.suspends;
    one.resumes += d.resumes;
    one.wakes += d.wakes;
  }
  return all;
}

function nothing() {
  return [element("p", { textContent: "No session was there in that time. Start one; it is suspended when it isn't used for 20 s, and what that saves is shown here:" }),
    command("diapause run --name work --tty --idle 20s -- bash")];
}

function byDay(u) {
  const all = daysOf(u);
  if (u.tenants.length === 0 || all.length === 0) return nothing();
  const sum = (part) => all.reduce((n, d) => n + d[part], 0);
  const [used, saved, suspends] = ["used", "saved", "suspends"].map(sum);
  const part = used + saved > 0 ? ` That is ${Math.round(saved / (used + saved) * 100)} % of what sessions that were captured would have taken awake.` : "";
  const said = saved === 0
    ? [element("p", { textContent: "Nothing was saved yet: a session's memory is known when it was suspended once. It is suspended when it isn't used for its grace, or at once by" }), element("p", {}, command("diapause suspend NAME"))]
    : element("p", { className: "sum" }, element("b", { textContent: sayGibHours(saved) }), ` of memory saved, ${sayGibHours(used)} used.${part}`);
  const memory = [{ name: "used", kind: "used", of: (d) => d.used }, { name: "saved", kind: "saved", of: (d) => d.saved }];
  const turns = [{ name: "suspends", kind: "saved", of: (d) => d.suspends }, { name: "resumes on request", kind: "used", of: (d) => Math.max(0, d.resumes - d.wakes) }, { name: "wakes", kind: "woken", of: (d) => d.wakes }];
  return [said, element("div", { className: "charts two" },
    overDays("Memory", all, memory, sayGibHours),
    overDays("Sessions' hours", all, [{ name: "running", kind: "used", of: (d) => d.running }, { name: "suspended", kind: "saved", of: (d) => d.suspended }], sayHours),
    overDays("Stored at the day's end", all, [{ name: "stored", kind: "would", of: (d) => d.stored, last: true }], bytes),
    overDays("Suspends and resumes", all, turns, (n) => String(n))),
  element("details", {}, element("summary", { textContent: "The figures" }), numbers(all)),
  suspends > 0 && element("p", { className: "why", textContent: "Memory is what was captured of a session last, times the time that it ran or slept; of a container it is its files. Before its first suspend a session counts as none." }),
  u.gaps?.length > 0 && element("ul", {}, u.gaps.map((g) => element("li", { textContent: `Not counted: ${g}` })))];
}

// figures is a table whose cells keep to one line.
function figures(...of) {
  const t = table(...of);
  t.classList.add("figures");
  return t;
}

function numbers(all) {
  return figures("By day", ["Day", "Saved", "Used", "Running", "Suspended", "Stored", "Suspends", "Resumes", "Wakes"], all.filter((d) => d.running + d.suspended + d.stored + d.suspends + d.resumes > 0).reverse().map((d) => [
    new Date(d.at).toISOString().slice(0, 10), sayGibHours(d.saved), sayGibHours(d.used), sayHours(d.running), sayHours(d.suspended), bytes(d.stored), String(d.suspends), String(d.resumes), String(d.wakes)]));
}

const row = (u) => [sayGibHours(gibHours(u.saved_byte_seconds)), sayGibHours(gibHours(u.used_byte_seconds)), span(u.running_seconds), span(u.suspended_seconds), bytes(u.stored_bytes), String(u.suspends), String(u.resumes), String(u.wakes)];
const columns = ["Saved", "Used", "Running", "Suspended", "Stored", "Suspends", "Resumes", "Wakes"];

function byTenant(u) {
  if (u.tenants.length === 0) return element("p", { className: "why", textContent: "None yet." });
  return figures("By tenant", ["Tenant", "Sessions", ...columns], u.tenants.map((t) => [t.tenant, String(t.sessions), ...row(t)]));
}

function bySession(u) {
  if (u.omitted) return element("p", { className: "why", textContent: `${u.omitted} sessions: choose a tenant to see those that saved most.` });
  if (u.sessions.length === 0) return element("p", { className: "why", textContent: "None yet." });
  const all = [...u.sessions].sort((a, b) => b.saved_byte_seconds - a.saved_byte_seconds || b.running_seconds - a.running_seconds);
  const name = (s) => (s.state === "deleted" ? `${s.name}, deleted` : element("a", { href: `#/s/${encodeURIComponent(s.name)}`, textContent: s.name }));
  return [figures("By session", ["Session", ...columns], all.slice(0, most).map((s) => [name(s), ...row(s)])),
    all.length > most && element("p", { className: "why", textContent: `The ${most} that saved most, of ${all.length}.` })];
}

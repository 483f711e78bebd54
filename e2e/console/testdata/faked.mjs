// Uses pages of the console in Chromium with an API that is made up here. The arguments: the npm packages, the address of the
// console, and Chromium; with a directory as the fourth it leaves pictures of the pages there.
import { createRequire } from "node:module";

const [modules, gate, chromiumPath, pictures] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;

function must(ok, what) {
  if (!ok) throw new Error(what);
}

const aDay = 86_400_000;
const today = Math.floor(Date.now() / aDay) * aDay;
const iso = (at) => new Date(at).toISOString();
const gib = 2 ** 30;

const session = (name, state, more) => ({ name, tenant: "default", uid: `u-${name}`, version: 1, state, since: iso(today), created: iso(today), class: "web", host: "h", program: "sh", driver: "criu", idle_seconds: 3, rss_bytes: 1 << 20, stored_bytes: 1 << 20, pauseReason: state === "suspended" ? "inactivity" : undefined, ...more });
const amount = (n) => ({ running_seconds: 3600 * n, suspended_seconds: 7200 * n, other_seconds: 0, stored_byte_seconds: gib * 3600, used_byte_seconds: gib * 3600 * n, saved_byte_seconds: 2 * gib * 3600 * n, captured_bytes: gib, written_bytes: gib / 4, suspends: 3 * n, resumes: 2 * n, wakes: n, checkpoints: 0 });
const snapshots = [{ id: "1-1", at: iso(today - aDay), logical_bytes: gib, stored_bytes: gib / 4, trigger: "idle", restores: 0 }, { id: "2-5", parent: "1-1", at: iso(today), logical_bytes: gib, stored_bytes: 1 << 20, trigger: "idle", head: true, restores: 0 }];

// api are the answers, by method and path; tests change them.
const api = {
  sessions: new Map(["one", "two", "three"].map((n, i) => [n, session(n, i === 2 ? "suspended" : "running")])),
  usage: { from: iso(today - 29 * aDay), to: iso(Date.now()), tenants: [], sessions: [] },
  snapshots: [...snapshots],
  acted: [], // what was asked for
  hold: null, // a promise that answers wait for
};

async function answer(method, path, query) {
  const [, kind, name, verb] = path.split("/");
  if (path === "/whoami") return { role: "operator", actor: "test" };
  if (path === "/usage") {
    api.asked = query.toString();
    return api.usage;
  }
  if (path === "/sessions") return { sessions: [...api.sessions.values()] };
  if (kind === "sessions" && !verb) return api.sessions.get(name);
  if (kind === "sessions" && verb === "explain") return { text: "it runs", blockers: [], grace_ms: 20_000 };
  if (kind === "sessions" && verb === "snapshots") return api.snapshots;
  if (kind === "sessions" && verb === "history") return [{ at: iso(today), version: 1, type: "started", state: "running", actor: "worker@h" }];
  if (kind === "sessions" && method === "POST") {
    api.acted.push(`${verb} ${name}`);
    await api.hold;
    return {};
  }
  if (kind === "policies" && verb === "simulate") return simulation();
  if (kind === "policies") return { scope: "class:web", version: 2, policy: { keep: { archive: "720h0m0s" } }, effective: { grace: "10m0s", keep: { archive: "720h0m0s" } }, origins: { grace: "built in", keep: "set here" } };
  if (path === "/hosts") return [{ host: "h", alive: true, running: 2, suspended: 1, sessions: 2, seen: iso(today), version: "1", load: { memory_bytes: 8 * gib, available_bytes: 2 * gib, pressure: 0.1, disk_bytes: 100 * gib, disk_free_bytes: 20 * gib }, fingerprints: [{ driver: "criu", keeps: "memory", kernel: "6.12", arch: "amd64" }] }];
  if (path === "/store/stats") return api.store;
  return undefined;
}

function simulation() {
  const nap = (h, long, more) => ({ from: iso(today + h * 3_600_000), to: iso(today + (h + long) * 3_600_000), ...more });
  const naps = (all, saved) => ({ saved_gib_hours: saved, wrong: all.filter((n) => n.wrong).length, naps: all });
  return { scope: "class:web", from: iso(today), to: iso(today + aDay), sessions: 41, omitted: 39, now: { suspends: 3, resumes: 2, wrong: 0, asleep_hours: 6, saved_gib_hours: 3, waits_seconds: 1 }, would: { suspends: 6, resumes: 5, wrong: 1, asleep_hours: 9.5, saved_gib_hours: 4.75, waits_seconds: 2.5 },
    lives: [{ name: "one", from: iso(today), to: iso(today + aDay), now: naps([nap(2, 3)], 1.5), would: naps([nap(1, 4, { woken: true }), nap(8, 0.02, { woken: true, wrong: true })], 2.01) }, { name: "two", from: iso(today + 3_600_000), to: iso(today + aDay / 2), now: naps([], 0), would: naps([nap(4, 2, { woken: true })], 1) }] };
}

const browser = await chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, reducedMotion: "reduce" });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const wrong = [];
page.on("pageerror", (e) => wrong.push(e.stack));
page.on("dialog", (d) => d.accept());
await page.route("**/api/v1/**", async (route) => {
  const url = new URL(route.request().url());
  if (url.pathname.endsWith("/events")) return route.continue();
  const json = await answer(route.request().method(), url.pathname.replace("/api/v1", ""), url.searchParams);
  if (json?.status) return route.fulfill({ status: json.status, json });
  return json === undefined ? route.fulfill({ status: 404, json: { detail: `nothing is at ${url.pathname}` } }) : route.fulfill({ json });
});
const shows = (locator, text) => locator.filter({ hasText: text }).first().waitFor();
const link = (name) => page.locator("#pages").getByRole("link", { name, exact: true });

// look has axe look, and a phone.
async function look(what) {
  await page.evaluate(`${axe}; 0`);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
    must(serious.length === 0, `axe, ${what}, ${colorScheme}: ${JSON.stringify(serious.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html)]))}`);
    if (pictures) await page.screenshot({ path: `${pictures}/${what.replaceAll(" ", "-")}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 375, height: 700 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  must(wide <= 0, `${what} is ${wide} px wider than a phone`);
  if (pictures) await page.screenshot({ path: `${pictures}/${what.replaceAll(" ", "-")}-phone.png`, fullPage: true });
  await page.setViewportSize({ width: 1200, height: 800 });
}

// usage: nothing at first, then days.
async function usage() {
  await link("Usage").click();
  await shows(page.locator(".admin"), "No session was there in that time");
  await look("usage of nothing");
  api.usage = { ...api.usage, tenants: [{ tenant: "acme", sessions: 2, stored_bytes: gib, ...amount(9) }], sessions: [{ name: "acme/web", tenant: "acme", uid: "u", state: "running", stored_bytes: gib, from: iso(today), to: iso(today), ...amount(9) }],
    days: [1, 2, 3].map((n) => ({ tenant: "acme", from: iso(today - n * 2 * aDay), to: iso(today - (n * 2 - 1) * aDay), stored_bytes: n * gib, ...amount(n) })) };
  await page.getByRole("combobox", { name: "Of the last" }).selectOption("7");
  await shows(page.locator(".sum"), "12 GiB h of memory saved, 6 GiB h used. That is 67 % of what");
  must(api.asked === "by=day&since=6d", `it asks for ${api.asked}`);
  for (const title of ["Memory", "Sessions' hours", "Stored at the day's end", "Suspends and resumes"]) await page.getByRole("img", { name: new RegExp(`^${title}: `) }).waitFor();
  await page.getByText("The figures").click();
  await shows(page.getByRole("region", { name: "By day" }).last(), iso(today - 2 * aDay).slice(0, 10));
  await look("usage");
  await page.getByRole("combobox", { name: "Tenant" }).selectOption("acme");
  await shows(page.locator(".admin"), "--tenant acme");
}

// fleet: a store that can be read, and one that can't.
async function fleet() {
  api.store = { status: 500, detail: "list objects: connection refused" };
  await link("Fleet").click();
  await shows(page.locator(".banner.failure"), "connection refused");
  await shows(page.locator(".host"), "20.0 GiB of 100 GiB");
  api.store = { sessions: [], stored_bytes: 0, health: { last_error: "the store was full", last_error_at: iso(today), total_bytes: 100 * gib, free_bytes: 50 * gib } };
  await link("Sessions").click();
  await link("Fleet").click();
  await shows(page.getByRole("region", { name: "Store" }), "the store was full");
  await shows(page.getByRole("region", { name: "Store" }), "50.0 GiB of 100 GiB");
  await look("fleet");
}

async function simulated() {
  await page.goto(`${gate}/#/policies/class%3Aweb`);
  await shows(page.getByRole("region", { name: "Holds" }).last(), "archive 30d");
  await shows(page.getByRole("region", { name: "Holds" }).last(), "10m");
  must((await page.getByLabel("What is set, as JSON").inputValue()).includes('"30d"'), "what is set isn't as people write it");
  await page.getByRole("button", { name: "Simulate" }).click();
  const lives = page.locator(".lives li");
  await shows(lives, "one");
  must(await lives.count() === 2, `${await lives.count()} sessions are drawn`);
  await page.getByRole("img", { name: /^one: holds: 1 sleep, 1.5 GiB h saved; this one: 2 sleeps, 2.01 GiB h saved, 1 woken wrongly/ }).waitFor();
  must(await lives.first().locator("rect.wrong").count() === 1, "what is woken wrongly isn't drawn");
  await shows(page.locator(".admin"), "39 more sessions");
  await look("a simulation");
}

// openStays: what is open, typed and in focus stays when the parts of a session are read again.
async function openStays() {
  await page.goto(`${gate}/#/s/one`);
  const actions = page.getByLabel("Actions of snapshot 1-1");
  await actions.click();
  const name = page.getByLabel("Name of the fork from 1-1");
  await name.fill("mine");
  api.snapshots = [...snapshots.map((s) => ({ ...s, head: false })), { ...snapshots[1], id: "3-9", parent: "2-5", head: true }];
  api.sessions.set("one", { ...api.sessions.get("one"), version: 2 });
  await shows(page.locator(".snapshot"), "3-9");
  must(await name.inputValue() === "mine", "what was typed is gone");
  must(await page.evaluate(() => document.activeElement.getAttribute("aria-label")) === "Name of the fork from 1-1", "the focus is gone");
  await shows(page.locator(".action"), "diapause fork --snapshot 1-1 one mine");
}

// bulk: what a filter hides is told, and what goes on after the page was left.
async function bulk() {
  await page.goto(`${gate}/#/`);
  await page.getByLabel("Select one").check();
  await page.getByLabel("Select two").check();
  await page.locator("#filter").fill("two");
  const group = page.getByRole("group", { name: "With the selected sessions" });
  await shows(group, "2 selected, 1 of them hidden by the filter");
  await group.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog");
  await shows(dialog, "1 of them is hidden by the filter");
  must((await dialog.locator("li").first().innerText()).startsWith("one, running, hidden by the filter"), "what is hidden isn't first");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await group.getByRole("button", { name: "Leave out the hidden ones" }).click();
  await shows(group, /^1 selected/);
  await page.locator("#filter").fill("");
  await page.getByLabel("Select one").check();
  let go;
  api.hold = new Promise((done) => { go = done; });
  await group.getByRole("button", { name: "Suspend" }).click();
  await dialog.getByRole("button", { name: "Suspend", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await link("Audit").click();
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  go();
  await shows(page.locator("#work"), "Suspend: 2 of 2 done.");
  must(api.acted.join() === "suspend two,suspend one" || api.acted.join() === "suspend one,suspend two", `asked was ${api.acted}`);
}

// unloaded: a part of the page that doesn't come is told.
async function unloaded() {
  await page.route("**/console/desktop.js", (route) => route.abort());
  await page.goto(`${gate}/#/s/two/desktop`);
  await shows(page.locator(".desktop-part"), "This can't be loaded");
}

let began = Date.now();
try {
  await page.goto(`${gate}/#/`);
  await shows(page.locator(".rows"), "one");
  for (const part of [usage, fleet, simulated, openStays, bulk, unloaded]) {
    await part();
    console.log(`${String(Date.now() - began).padStart(6)} ms  ${part.name}`);
    began = Date.now();
  }
  must(wrong.length === 0, `errors of scripts: ${wrong.join("\n")}`);
} catch (e) {
  console.log(`at ${page.url()}:\n${await page.locator("body").innerText().catch(() => "")}\n${wrong.join("\n")}\n${e.stack}`);
  await browser.close();
  process.exit(1);
}
await browser.close();
process.exit(0);

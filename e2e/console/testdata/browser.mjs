// What the programs that drive Chromium share. Each has as its first arguments the npm packages, the program, its data directory,
// the address of its API, and Chromium.
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import net from "node:net";
import { promisify } from "node:util";

const [modules, program, data, address, chromiumPath] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;
export const limit = 60_000;

export { data };
export const more = process.argv.slice(7); // arguments of one program
export const run = promisify(execFile);
export const diapause = async (...args) => (await run(program, ["--data", data, ...args], { timeout: 120_000 })).stdout;
export const view = async (name) => JSON.parse(await diapause("show", "--json", name));

let began = Date.now();
export function step(what) {
  console.log(`${String(Date.now() - began).padStart(6)} ms  ${what}`);
  began = Date.now();
}

export function must(ok, what) {
  if (!ok) throw new Error(what);
}

// eventually waits until something that isn't in a page is so.
export async function eventually(what, is) {
  for (const end = Date.now() + limit; !(await is());) {
    must(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// suspend has a session suspended. What was typed a moment ago may be told of late, which undoes that: it is tried again.
export const suspend = (name) => eventually(`${name} is suspended`, () => diapause("suspend", name).then(() => true, (e) => {
  if (e.stderr?.includes("activity came")) return false;
  throw e;
}));

// The browser reaches the gateway through this, which can be cut.
const open = new Set();
let cut = false;
const [host, port] = address.split(":");
const proxy = net.createServer((from) => {
  if (cut) return from.destroy();
  const to = net.connect(Number(port), host);
  for (const [a, b] of [[from, to], [to, from]]) {
    open.add(a);
    a.on("error", () => b.destroy()).on("close", () => { open.delete(a); b.destroy(); });
    a.pipe(b);
  }
});
await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
export const gatePort = proxy.address().port;
export const gate = `http://localhost:${gatePort}`;

// cutAll ends all connections and refuses others, until mend is called.
export function cutAll() {
  cut = true;
  for (const s of open) s.destroy();
}

export function mend() {
  cut = false;
}

export const browser = await chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
process.on("exit", () => browser.close());

// What is never to happen, on any page.
export const wrong = [];

const ours = (url) => /^(data|blob|about):/.test(url) || new URL(url).port === String(gatePort) && /^(localhost|.*\.localhost)$/.test(new URL(url).hostname);

// person opens a browser of its own: with its own login, and a page. Nothing in it may ask another origin, break a script or the policy.
export async function person(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(limit);
  context.on("request", (r) => { if (!ours(r.url())) wrong.push(`a request for ${r.url()}`); });
  context.on("weberror", (e) => wrong.push(`an error of a script: ${e.error().stack}`));
  context.on("console", (m) => { if (/Content Security Policy|Trusted/i.test(m.text())) wrong.push(m.text()); });
  return { context, page: await context.newPage() };
}

export async function login(page, ...flags) {
  await page.goto((await diapause("login-link", "--at", gate, ...flags)).trim());
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("link", { name: "Open the console" }).click();
}

// accessible has axe look at a page.
export async function accessible(page, what, options = {}) {
  await page.evaluate(`${axe}; 0`);
  const found = await page.evaluate((o) => window.axe.run(document, { resultTypes: ["violations"], ...o }), options);
  const serious = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
  must(serious.length === 0, `axe, ${what}: ${JSON.stringify(serious.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => [n.html, n.failureSummary])]), null, 1)}`);
}

// lightAndDark has axe look at a page in both. It is light then.
export async function lightAndDark(page, what) {
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, `${what}, dark`, { runOnly: ["color-contrast"] });
  await page.emulateMedia({ colorScheme: "light" });
  await accessible(page, what);
}

// narrow checks that nothing on a page is wider than a phone.
export async function narrow(page, what, also) {
  const size = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 700 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  must(wide <= 0, `${what} is ${wide} px wider than a phone`);
  await also?.();
  await page.setViewportSize(size);
}

export const shows = (locator, text) => locator.filter({ hasText: text }).first().waitFor();

// perform runs a test to its end, and ends the process. What went wrong is said with what page shows then.
export async function perform(page, test) {
  try {
    await test();
    must(wrong.length === 0, `on the pages: ${wrong.join("\n")}`);
  } catch (e) {
    console.log(`at ${page.url()}:\n${await page.locator("body").innerText().catch(() => "")}\n${wrong.join("\n")}`);
    console.log(e.stack);
    await browser.close();
    process.exit(1);
  }
  await browser.close();
  process.exit(0);
}

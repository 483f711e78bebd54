// Uses the console as those do who are in its way: keys alone, the way back, names as long as they may be, a clock that is wrong.
import { accessible, cutAll, diapause, eventually, gate, login, mend, must, narrow, person, shows, step, view } from "./browser.mjs";

const long = "w".repeat(64);
const focused = (page) => page.evaluate(() => document.activeElement.textContent);
const rowOf = (page, name) => page.locator(".rows .row").filter({ has: page.getByRole("link", { name, exact: true }) });

// longNames has names, labels and arguments that are as long as they may be, or look like something else.
export async function longNames({ page }) {
  await diapause("run", "--name", long, "--idle", "1h", "--label", `${"k".repeat(63)}=${"v".repeat(200)}`, "--label", "odd=\u202eevil ' \" & <script>alert(1)</script>", "--", "sh", "-c", `exec sleep 1000 # ${"x".repeat(3000)}`);
  await page.goto(`${gate}/#/`);
  await rowOf(page, long).waitFor();
  must(!(await rowOf(page, long).innerText()).includes("\u202e"), "a label turns the text around");
  for (const path of ["", `s/${long}`, `s/${long}/terminal`]) {
    await page.goto(`${gate}/#/${path}`);
    await shows(page.locator(".rows, h1"), long);
    await narrow(page, `a long name at #/${path.slice(0, 9)}`);
    await accessible(page, `a long name at #/${path.slice(0, 9)}`);
  }
  await diapause("rm", "--yes", long);
  await page.goto(`${gate}/#/`);
  step("long and odd names");
}

// byKeys goes through the list, and back to where it was.
export async function byKeys({ page }) {
  const names = Array.from({ length: 60 }, (_, i) => `k${String(i).padStart(2, "0")}`);
  const session = (name) => ({ name, tenant: "default", uid: name, version: 1, state: "suspended", since: new Date().toISOString(), class: "web", host: "h", program: "sh", pauseReason: "inactivity" });
  const there = new Set(names);
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ json: { sessions: [...there].sort().map(session) } }));
  await page.reload();
  await page.locator(".chip").first().filter({ hasText: "60" }).waitFor();
  const inOrder = async (what) => {
    const order = await page.locator(".rows .row").evaluateAll((rows) => rows.map((r) => Number(r.getAttribute("aria-rowindex"))));
    must(order.every((n, i) => i === 0 || n > order[i - 1]), `the rows are in the order ${order} ${what}`);
  };
  await page.locator("#filter").press("ArrowDown");
  await page.keyboard.press("End");
  must((await focused(page)) === "k59", `End leads to ${await focused(page)}`);
  await page.keyboard.press("PageUp");
  await inOrder("after the way back");
  const at = await focused(page);
  await page.locator(".scroller").evaluate((e) => { e.scrollTop = 0; });
  await rowOf(page, "k00").waitFor();
  must((await focused(page)) === at, `after it was scrolled away ${await focused(page)} has the focus, not ${at}`);
  await inOrder("with one that isn't seen");
  await page.keyboard.press("ArrowDown");
  must((await focused(page)) > at, `from ${at} a key leads to ${await focused(page)}`);

  // The way back leads to where the list was, and to the session that was opened.
  const opened = await focused(page);
  const top = await page.locator(".scroller").evaluate((e) => e.scrollTop);
  must(top > 0, "the list is at its beginning");
  await page.keyboard.press("Enter");
  await shows(page.locator("h1"), opened);
  await page.locator("body").press("Control+k");
  await page.getByRole("dialog").waitFor();
  await page.goBack();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await eventually("the list is where it was", async () => (await page.locator(".scroller").evaluate((e) => e.scrollTop)) === top);
  must((await focused(page)) === opened, `after the way back ${await focused(page)} has the focus, not ${opened}`);
  await page.unroute("**/api/v1/sessions?*");
  await page.reload();
  await rowOf(page, "k59").waitFor({ state: "detached" });
  step("the list by keys, and the way back");
}

// goneUnderFocus: a session that is deleted leaves the focus in the list.
export async function goneUnderFocus({ page }) {
  for (const name of ["gone1", "gone2"]) await diapause("run", "--name", name, "--idle", "1h", "--", "sleep", "1000");
  await rowOf(page, "gone2").waitFor();
  await rowOf(page, "gone1").getByRole("link").focus();
  await diapause("rm", "--yes", "gone1");
  await rowOf(page, "gone1").waitFor({ state: "detached" });
  must((await focused(page)) === "gone2", `after a session has gone the focus is on ${await focused(page)}`);
  await diapause("rm", "--yes", "gone2");
  await rowOf(page, "gone2").waitFor({ state: "detached" });
  step("a session that goes with the focus");
}

// wrongClock has a browser whose clock is a day ahead.
export async function wrongClock({ name }) {
  const { context, page } = await person();
  await page.clock.install({ time: Date.now() + 86_400_000 });
  await login(page);
  await rowOf(page, name).getByRole("link").click();
  await shows(page.locator(".timeline"), "started");
  const life = await page.locator(".life figcaption").innerText();
  must(!/\d+d /.test(life), `with a clock that is a day ahead its life is: ${life}`);
  await page.locator("#pages").getByRole("link", { name: "Keys and tokens" }).click();
  const tokens = page.getByRole("region", { name: "Tokens" }).last();
  await shows(tokens, "until");
  must(!(await tokens.innerText()).includes("expired"), "with a clock that is a day ahead a token has expired");
  await context.close();
  step("a clock that is a day ahead");
}

// cutPages asks for pages whose files haven't come yet while the gateway doesn't answer.
export async function cutPages({ name }) {
  const { context, page } = await person();
  await login(page);
  await rowOf(page, name).waitFor();
  cutAll();
  await rowOf(page, name).getByRole("link").click();
  await shows(page.locator("main"), "This can't be loaded");
  mend();
  await page.getByRole("button", { name: "Try again" }).click();
  await shows(page.locator("h1"), name);
  cutAll();
  await page.getByRole("link", { name: "Terminal" }).first().click();
  await shows(page.locator(".terminal-part"), "This can't be loaded");
  mend();
  await page.reload();
  await page.getByRole("button", { name: "Connect", exact: true }).waitFor();
  const files = ["xterm.mjs", "addon-fit.mjs", "addon-search.mjs"];
  await eventually("the terminal's files have come", () => page.evaluate((all) => all.every((f) => performance.getEntriesByType("resource").some((e) => e.name.endsWith(f))), files));
  cutAll();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await shows(page.locator(".said"), "The connection is lost");
  mend();
  await shows(page.locator(".said"), /^connected$/);
  await shows(page.locator("#liveness"), /^live$/);

  // A cookie that expires in the midst of work ends what is shown, and nothing goes on.
  await context.clearCookies();
  await page.reload();
  await shows(page.locator("main"), "This browser isn't logged in");
  await login(page);
  await rowOf(page, name).waitFor();
  await context.clearCookies();
  await page.locator("body").press("Control+k");
  await page.keyboard.type("anything");
  await shows(page.locator("main"), "The login has ended");
  await context.close();
  step("files that don't come, and a cookie that has expired");
}

// expiredLogin has a login that is valid for half a minute.
export async function expiredLogin({ name }) {
  const { context, page } = await person();
  await login(page, "--for", "30s");
  await rowOf(page, name).waitFor();
  await shows(page.locator("main"), "The login has ended");
  must((await rowOf(page, name).count()) === 0, "a login that has expired shows sessions");
  await context.close();
  step("a login that expires");
}

// Uses the console in Chromium. After the arguments of browser.mjs comes a program that serves "hello" at port 8080. The long tests
// (DIAPAUSE_LONG) cut the stream for ten seconds, and have a login expire. It prints each step with how long it took, and fails at the first one that isn't as it should be.
import * as shared from "./browser.mjs";
import { emptyPages, pages, pagesOf } from "./pages.mjs";
import { useDesktop } from "./desktop.mjs";
import { watchShared } from "./shared.mjs";
import { byKeys, cutPages, expiredLogin, goneUnderFocus, longNames, wrongClock } from "./rough.mjs";
import { editor, together } from "./terminals.mjs";
import { wakePage } from "./wake.mjs";

const { browser, cutAll, data, diapause, eventually, gate, gatePort, more, must, perform, person, run, shows, step, suspend, view } = shared;
const [server] = more;
const { context, page } = await person();
const accessible = (what) => shared.accessible(page, what);
const lightAndDark = (what) => shared.lightAndDark(page, what);
const narrow = (what, also) => shared.narrow(page, what, also);
const login = () => shared.login(page);
const rowOf = (name) => page.locator(".rows .row").filter({ has: page.getByRole("link", { name, exact: true }) });

// manySessions shows 10,000, which only the page has.
async function manySessions() {
  const other = await context.newPage();
  const name = (i) => `s${String(i).padStart(5, "0")}`;
  const session = (i) => ({ name: name(i), tenant: "default", uid: `u${i}`, version: 1, state: i % 2 ? "running" : "suspended", since: new Date().toISOString(), class: "web", host: "h", program: "sh", rss_bytes: 1 << 20, idle_seconds: i, pauseReason: "inactivity" });
  await other.route("**/api/v1/sessions/s*", (route) => route.fulfill({ json: session(Number(route.request().url().split("/s").pop())) }));
  await other.route("**/api/v1/sessions?*", (route) => {
    const after = new URL(route.request().url()).searchParams.get("after");
    const from = after ? Number(after.slice(1)) + 1 : 0;
    const sessions = Array.from({ length: 400 }, (_, i) => session(from + i));
    route.fulfill({ json: { sessions, next: from + 400 < 10_000 ? name(from + 399) : undefined } });
  });
  await other.goto(`${gate}/`);
  await other.locator(".chip").first().filter({ hasText: "10000" }).waitFor();
  await other.locator("#filter").press("ArrowDown");
  await other.keyboard.press("End");
  await other.getByRole("link", { name: "s09999" }).waitFor();
  must((await other.evaluate(() => document.activeElement.textContent)) === "s09999", "the last row hasn't the focus");
  const elements = await other.locator(".rows .row").count();
  must(elements < 80, `of 10,000 sessions ${elements} rows are in the page`);
  await other.locator("#filter").fill("s0765");
  await other.locator(".chip").first().filter({ hasText: /^All 10$/ }).waitFor();
  await other.close();
  step("10,000 sessions");
}

await perform(page, async () => {
  await page.goto(`${gate}/`);
  await shows(page.locator("main"), "This browser isn't logged in");
  await shows(page.locator("main"), "diapause login-link");
  await lightAndDark("not logged in");
  await login();
  await shows(page.locator("main"), "No sessions yet");
  await shows(page.locator("#liveness"), /^live$/);
  await accessible("the empty list");
  step("log in, and see an empty installation");
  const tools = { page, gate, diapause, view, run, must, shows, eventually, accessible, narrow };
  await emptyPages(tools);
  step("the pages of an empty installation");

  await diapause("run", "--name", "web", "--idle", "1h", "--on-resume-failure", "fresh", "--network", "private", "--label", "team=<b>blue</b>", "--env", "DIAPAUSE_TEST_SERVER=1", "--", server);
  await diapause("run", "--name", "work", "--idle", "1h", "--tty", "--env", "PS1=$ ", "--", "sh");
  await shows(rowOf("web"), "running");
  await shows(rowOf("web"), "team=<b>blue</b>");
  await shows(rowOf("work"), "running");
  await diapause("suspend", "web");
  await shows(rowOf("web"), "paused");
  await shows(rowOf("web"), "manual since");
  const asleep = await view("web");
  await accessible("the list");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible("the list, dark");
  const boxed = await page.locator(".rows .cell").evaluateAll((cells) => cells.filter((c) => parseFloat(getComputedStyle(c).borderTopWidth) > 0).map((c) => c.className));
  must(boxed.length === 0, `of the list these have a box: ${boxed}`);
  await narrow("the list", async () => {
    const overlap = () => page.evaluate(() => {
      const [a, b] = [...document.querySelectorAll(".rows .row")].map((r) => r.getBoundingClientRect()).sort((x, y) => x.top - y.top);
      return a.bottom > b.top + 1;
    });
    await eventually("rows that don't overlap on a phone", async () => !(await overlap()));
  });
  step("the list, live");

  await page.locator("body").press("/");
  await page.keyboard.type("BLUE");
  await rowOf("work").waitFor({ state: "detached" });
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await shows(page.locator("h1"), "web");
  await shows(page.locator(".badge"), "paused");
  await shows(page.locator(".explained"), "sleeps until it is used");
  await shows(page.locator(".timeline"), "suspended");
  await shows(page.getByRole("region", { name: "Snapshots" }), "head");
  await shows(page.getByRole("region", { name: "Policy" }), "grace");
  await shows(page.locator(".actions"), "diapause resume web");
  await page.emulateMedia({ colorScheme: "light" });
  await lightAndDark("a session");
  await narrow("a session");
  const looked = await view("web");
  must(looked.state === "suspended" && looked.version === asleep.version, `looking has changed it: ${JSON.stringify(looked)}`);
  step("filter by keyboard, and look at a session that sleeps");

  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await shows(page.locator(".is"), "running");
  await shows(page.locator(".timeline"), "resume");
  const link = page.locator(".ports a[href]");
  must((await link.getAttribute("href")) === `http://8080--web.default.localhost:${gatePort}/`, `the port is at ${await link.getAttribute("href")}`);
  await page.getByRole("button", { name: "Keep awake for 1 h" }).click();
  await shows(page.locator(".why-now li"), "kept awake in the console");
  await page.getByRole("button", { name: "Let it sleep again" }).click();
  await page.locator(".why-now li").filter({ hasText: "kept awake in the console" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Suspend now", exact: true }).click();
  await shows(page.locator(".is"), "paused");
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  await page.getByLabel("Name of the fork").fill("second");
  await shows(page.locator(".actions"), "diapause fork web second");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await shows(page.locator("h1"), "second");
  await eventually("there is a fork", async () => (await view("second")).origin?.session.endsWith("web"));
  step("resume, hold, release, suspend and fork by buttons");

  // A tree of snapshots: each button shows its command, and nothing is destroyed unasked.
  await page.goto(`${gate}/#/s/web`);
  await shows(page.locator("h1"), "web");
  const snapshots = page.getByRole("region", { name: "Snapshots" });
  await shows(snapshots, "Forked as second");
  const [first] = JSON.parse(await diapause("snapshots", "--json", "web"));
  await snapshots.getByLabel(`Actions of snapshot ${first.id}`).click();
  await shows(snapshots, `diapause snapshots rm web ${first.id}`);
  await shows(snapshots, `diapause fork --snapshot ${first.id} web web-${first.id}`);
  await snapshots.getByRole("button", { name: "Verify" }).first().click();
  await shows(page.locator(".outcome"), /Verify .*: done/);
  await snapshots.getByRole("button", { name: "Roll back to it" }).click();
  const sure = page.getByRole("dialog");
  await shows(sure, `diapause rollback web ${first.id}`);
  await lightAndDark("a question");
  await sure.getByRole("button", { name: "Cancel", exact: true }).click();
  must((await view("web")).state === "suspended", "it was rolled back though that was cancelled");
  await snapshots.getByRole("button", { name: "Roll back to it" }).click();
  await sure.getByRole("button", { name: "Roll back", exact: true }).click();
  await shows(page.locator(".is"), "running");
  await page.getByRole("button", { name: "Suspend now", exact: true }).click();
  await shows(snapshots, `What followed ${first.id} before a rollback`);
  must((await page.locator(".chart circle").count()) >= 6, "the charts lack snapshots");
  await shows(page.locator(".life"), /ran .*, paused/);
  await page.locator(".timeline details summary").first().click();
  await shows(page.locator(".timeline dl"), "Operation");
  await accessible("a session with its tree and evidence");
  await narrow("a session with its tree");
  const second = JSON.parse(await diapause("snapshots", "--json", "web")).find((s) => s.id !== first.id && !s.head);
  const remove = async (id) => {
    const button = snapshots.locator(".action").filter({ hasText: `snapshots rm web ${id}` }).getByRole("button", { name: "Delete" });
    if (!(await button.isVisible())) await snapshots.getByLabel(`Actions of snapshot ${id}`).click();
    await button.click();
    await sure.getByRole("button", { name: "Delete", exact: true }).click();
  };
  await remove(second.id); // the fork goes on from it
  await shows(page.locator(".outcome.failed"), "is in use");
  await remove(first.id);
  await snapshots.getByLabel(`Actions of snapshot ${first.id}`).waitFor({ state: "detached" });
  must(!JSON.parse(await diapause("snapshots", "--json", "web")).some((s) => s.id === first.id), "a snapshot that was deleted is there");
  step("a tree of snapshots, evidence and charts");

  // Several at once, by keyboard.
  await page.goto(`${gate}/#/`);
  await page.locator("#filter").fill("");
  await rowOf("second").getByRole("link").focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("Shift+ArrowDown");
  await shows(page.locator(".bulk"), "2 selected");
  await page.getByLabel("Select all that are shown").check();
  await shows(page.locator(".bulk"), "3 selected");
  await page.locator(".bulk").getByRole("button", { name: "Resume" }).click();
  await shows(sure, "web, paused: is resumed");
  await shows(sure, "work, running: is left as it is");
  await shows(sure, "diapause resume web");
  await accessible("a preview");
  await narrow("a preview");
  await sure.getByRole("button", { name: "Resume", exact: true }).click();
  await shows(page.locator("main"), /Resume: \d of \d done\./);
  await shows(rowOf("web"), "running");
  await page.getByRole("button", { name: "Clear the selection" }).click();
  await page.getByLabel("Select web").check();
  await page.locator(".bulk").getByRole("button", { name: "Suspend" }).click();
  await sure.getByRole("button", { name: "Suspend", exact: true }).click();
  await shows(rowOf("web"), "paused");
  await eventually("it is suspended", async () => (await view("web")).state === "suspended");
  step("several sessions at once");

  await page.keyboard.press("Control+k");
  await page.keyboard.type("wor");
  await shows(page.getByRole("option", { selected: true }), "work");
  await lightAndDark("the command search");
  await page.keyboard.press("Enter");
  await shows(page.locator("h1"), "work");
  step("go to a session by the command search");

  const rows = page.locator(".xterm-rows");
  const types = async (text) => {
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
  };
  await page.getByRole("link", { name: "Terminal" }).first().click();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await shows(page.locator(".said"), /^connected$/);
  await types("N=41; printf '\\033[38;2;200;30;30mcolou''red\\033[m\\n'");
  await shows(rows, "coloured");
  const red = await page.evaluate(() => [...document.querySelectorAll(".xterm-rows span")].filter((s) => s.textContent === "coloured").map((s) => getComputedStyle(s).color));
  must(red.includes("rgb(200, 30, 30)"), `coloured text is ${red}`);
  await lightAndDark("a terminal");
  await page.getByLabel("Find in the terminal").fill("coloured");
  await shows(page.locator(".find"), /^1 of 1|1 of 1/);
  await page.getByLabel("Find in the terminal").fill("not there");
  await shows(page.locator(".find"), "not found");
  await page.getByLabel("Find in the terminal").press("Escape");
  step("a terminal, and search in what it showed");

  // What a program prints is text: its title too, and a link leads to a page alone, once a person agrees.
  await types("printf '\\033]2;a\\342\\200\\256<b>b</b>\\007'");
  await shows(page.locator(".terminal-part .bar"), "Its title: “a <b>b</b>”");
  const asked = [];
  const opened = [];
  page.on("dialog", (d) => { asked.push(d.message()); d.dismiss(); });
  context.on("page", (p) => opened.push(p.url()));
  const link8 = (uri, text) => types(`printf '\\033]8;;${uri}\\033\\\\%s\\033]8;;\\033\\\\\\n' ${text}`);
  const press = async (text) => {
    let box; // a row that is drawn again has another element
    await eventually(`${text} is shown`, async () => (box = await page.evaluate((t) => {
      const e = [...document.querySelectorAll(".xterm-rows span")].find((s) => s.textContent === t);
      return e && e.getBoundingClientRect().toJSON();
    }, text)));
    await page.mouse.move(box.x - 3, box.y + box.height / 2);
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.up();
  };
  await link8("javascript:document.body.remove()", "scr''ipt");
  await link8("http://evil.example/", "pa''ge");
  await shows(rows, "page");
  for (let i = 0; i < 3; i++) await press("script");
  await eventually("a link asks", async () => {
    await press("page");
    return asked.length > 0;
  });
  for (let i = 0; i < 3; i++) await press("script");
  must(asked.every((m) => m.includes("http://evil.example/")) && opened.length === 0, `links ask ${asked}, and open ${opened}`);
  step("what a hostile program prints");

  await suspend("work");
  const wake = page.getByRole("button", { name: "Resume and connect" });
  await wake.waitFor();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo lost\n");
  must((await view("work")).state === "suspended", "typing has resumed what said that it is paused");
  await wake.click();
  await shows(page.locator(".said"), /^connected$/);
  await types("echo $((N+1))back");
  await shows(rows, "42back");
  must(!(await rows.textContent()).includes("lost"), "what was typed while it slept has come");
  step("a terminal through a suspend");

  // The recording is played while the session sleeps, and stays asleep.
  await suspend("work");
  const before = await view("work");
  const sent = [];
  page.on("request", (r) => { if (r.url().includes("/recording?")) sent.push(r.url()); });
  await page.route("**/sessions/work/commands?*", (route) => route.fulfill({ json: { commands: [{ number: 1, text: "make <b>all</b>", began: before.created, exit: 2, from: 0 }] } }));
  await page.route("**/sessions/work/commands/1/output", (route) => route.fulfill({ contentType: "text/plain", body: "<i>one</i>\u0007\ntwo\n" }));
  await page.getByRole("link", { name: "Recording" }).click();
  await page.locator(".commands summary").filter({ hasText: "make <b>all</b>" }).click();
  await shows(page.locator(".commands .printed"), "<i>one</i> two");
  await page.getByLabel("Speed").selectOption({ label: "16×" });
  await page.getByLabel("Idle limit").selectOption({ label: "wait ½ s at most" });
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await shows(page.locator(".said"), "the end");
  await shows(page.locator(".replay-screen"), "42back");
  must(sent.length > 0 && sent.every((u) => /format=jsonl&from=/.test(u)), `it is read by ${sent}`);
  await page.getByLabel("Moment of the recording").focus();
  await page.keyboard.press("End");
  await eventually("it is read from where the scrubber is", async () => sent.length > 1);
  await page.getByRole("button", { name: "Show the last 10 minutes" }).click();
  await shows(page.getByRole("region", { name: "Logs" }), "42back");
  await lightAndDark("a recording");
  await narrow("a recording");
  must((await view("work")).version === before.version, "to look at the recording has changed the session");
  await page.getByRole("link", { name: "Terminal" }).first().click();
  await page.getByRole("button", { name: "Resume and connect" }).click();
  await shows(page.locator(".said"), /^connected$/);
  step("a recording");

  cutAll();
  await shows(page.locator("#liveness"), "not live since");
  await shows(page.locator(".said"), "The connection is lost");
  await types("echo o''ne$N");
  await types("echo t''wo$N");
  await diapause("rm", "--yes", "second");
  await diapause("resume", "web");
  if (process.env.DIAPAUSE_LONG) await new Promise((done) => setTimeout(done, 10_000)); // as long as a cut may be that is no glitch
  shared.mend();
  await shows(page.locator("#liveness"), /^live$/);
  await shows(rows, "two41");
  const text = (await rows.locator("> div").allTextContents()).map((l) => l.trimEnd().replace(/^\$ /, ""));
  for (const [line, n] of [["coloured", 1], ["42back", 1], ["one41", 1], ["two41", 1]]) {
    must(text.filter((l) => l === line).length === n, `the terminal has ${line} ${text.filter((l) => l === line).length} times:\n${text.join("\n")}`);
  }
  await page.getByRole("link", { name: "‹ Sessions" }).click();
  await page.locator("#filter").fill("");
  await shows(rowOf("work"), "running");
  await shows(rowOf("web"), "running"); // it was resumed while the stream was cut
  must((await rowOf("second").count()) === 0, "a session that was deleted meanwhile is shown");
  step("a stream and a terminal that were cut");
  await watchShared({ browser, gate, diapause, view, must, eventually, step });

  await editor({ page });
  await together({ page });
  await wakePage({ page, server });
  await longNames({ page });
  await byKeys({ page });
  await goneUnderFocus({ page });
  await wrongClock({ name: "work" });
  await cutPages({ name: "work" });

  await useDesktop({ page, gate, diapause, suspend, view, shows, step, must, eventually, accessible });

  // What terminals showed is found, as text. The list doesn't say it, so the session is behind the line alone.
  await page.getByRole("link", { name: "work", exact: true }).click();
  await page.getByRole("link", { name: "Terminal" }).first().click();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await shows(page.locator(".said"), /^connected$/);
  await types("printf '<img src=x onerror=document.body.remove()> gi''raffe\\n'");
  await shows(rows, "> giraffe");
  await page.getByRole("link", { name: "‹ Sessions" }).click();
  await eventually("what the terminal showed is recorded", async () => (await diapause("search", "giraffe")).includes("> giraffe"));
  const typed = await view("work");
  await page.locator("body").press("Control+k");
  await page.keyboard.type("giraffe");
  const line = page.getByRole("group", { name: "In terminals" }).getByRole("option").filter({ hasText: "<img src=x onerror=document.body.remove()> giraffe" });
  await line.waitFor();
  must((await page.locator(".palette img").count()) === 0, "what a terminal showed is markup");
  await accessible("lines in the command search");
  await narrow("lines in the command search");
  await page.keyboard.press("Enter");
  await shows(page.locator("h1"), "work");
  must((await view("work")).state === typed.state, "a search has changed the session");
  await page.getByRole("link", { name: "‹ Sessions" }).click();
  let denied = 0;
  await page.route("**/api/v1/search?*", (route) => { denied++; return route.fulfill({ status: 403, json: { detail: "not for readers" } }); });
  await page.locator("body").press("Control+k");
  const sought = page.locator(".palette input");
  await sought.fill("giraffe");
  await eventually("terminals are asked", async () => denied > 0);
  await shows(page.locator(".palette .note"), "Nothing matches");
  await sought.fill("work");
  await shows(page.getByRole("option", { selected: true }), "work");
  must((await page.getByRole("group", { name: "In terminals" }).count()) === 0, "who may not search has lines in terminals");
  await page.keyboard.press("Enter");
  await shows(page.locator("h1"), "work");
  await page.getByRole("link", { name: "‹ Sessions" }).click();
  await page.unroute("**/api/v1/search?*");
  step("what terminals showed, in the command search");

  await diapause("archive", "work");
  await rowOf("work").waitFor({ state: "detached" });
  await page.getByRole("button", { name: /^Archived 1$/ }).click();
  await shows(rowOf("work"), "archived");
  await rowOf("work").getByRole("link").click();
  await shows(page.locator(".badge"), "archived");
  await page.getByRole("link", { name: "Terminal" }).first().click();
  await shows(page.locator(".said"), "It is in the archive");
  must(await wake.isDisabled(), "a terminal in the archive can be connected");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await shows(page.locator(".is"), "running");
  await page.getByRole("link", { name: "‹ Sessions" }).click();
  await page.getByRole("button", { name: /^All 2$/ }).click();
  await shows(rowOf("work"), "running");
  step("the archive");

  await page.evaluate(() => {
    const liveness = document.getElementById("liveness");
    window.was = [];
    new MutationObserver(() => window.was.push(liveness.textContent)).observe(liveness, { childList: true, characterData: true, subtree: true });
  });
  let refusals = 0;
  await page.route("**/api/v1/sessions/web", (route) => (refusals++ < 2 ? route.fulfill({ status: 429, json: { detail: "too many requests" } }) : route.continue()));
  await diapause("label", "web", "asked=often");
  await shows(rowOf("web"), "asked=often");
  const was = await page.evaluate(() => window.was);
  must(refusals > 2 && was.length === 0, `asked too often ${refusals} times, it is ${was}`);
  step("more changes than may be asked about");

  await pages(tools, step);

  // A session that was started again without its memory says so until that is dismissed.
  await diapause("suspend", "web");
  await run("sh", ["-c", 'for f in $(find "$1" -path "*packs*" -name "*.age" ! -name "*.ids.age"); do printf xxxxxxxx | dd of="$f" bs=1 seek=100 conv=notrunc status=none; done', "sh", `${data}/objects/default/${(await view("web")).uid}`]);
  await diapause("ensure", "web");
  await page.goto(`${gate}/#/s/web`);
  await shows(page.locator(".banner.notice"), "Session reset");
  await shows(page.locator(".banner.notice"), (await view("web")).notice.text);
  await accessible("a notice");
  await page.locator(".banner.notice").getByRole("button", { name: "Dismiss", exact: true }).click();
  await page.locator(".banner.notice").waitFor({ state: "detached" });
  must(!(await view("web")).notice, "the notice that was dismissed is there");
  await page.goto(`${gate}/#/`);
  await shows(rowOf("web"), "running");
  step("a notice, until it is dismissed");

  await manySessions();
  if (process.env.DIAPAUSE_LONG) await expiredLogin({ name: "web" });

  const other = await context.newPage();
  await other.goto(`${gate}/api/v1/docs`);
  await other.locator("details").first().waitFor();
  await shared.lightAndDark(other, "the page of the API");
  await other.goto(`${gate}/login`);
  await other.getByRole("button", { name: "Log out" }).waitFor();
  await shared.lightAndDark(other, "the login of this browser");
  await other.getByRole("button", { name: "Log out" }).click();
  await shows(page.locator("main"), "This browser isn't logged in");
  await other.close();
  await login();
  await shows(rowOf("work"), "running");
  await page.keyboard.press("Control+k");
  await shows(page.getByRole("option"), "work");
  for (const t of JSON.parse(await diapause("token", "ls", "--json")).filter((t) => t.role === "login" && !t.revoked)) await diapause("token", "revoke", t.id);
  await shows(page.locator("main"), "The login has ended");
  const left = await page.locator("body").innerText();
  must(!left.includes("work") && await page.getByRole("dialog").count() === 0, `after the login has ended the page has ${left}`);
  step("a login that was ended");
  await pagesOf(tools, "reader");
  step("pages that a role may not see");
});

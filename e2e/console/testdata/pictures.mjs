// Takes the pictures of the console that documents show. The argument after those of browser.mjs is the directory that they go to.
import { diapause, eventually, gate, login, more, must, perform, person, shows, view } from "./browser.mjs";

const [dir] = more;
const { page } = await person({ viewport: { width: 1280, height: 380 } });
const sh = ["--env", "PS1=$ ", "--env", "TERM=xterm-256color", "--env", "HOME=/root", "--env", "PATH=/usr/bin:/bin"];

async function sessions() {
  const run = (name, label, ...args) => diapause("run", "--name", name, "--idle", "20m", "--label", label, ...args);
  await run("agent-17", "team=search", "--tty", ...sh, "--", "bash", "--norc");
  await run("api", "team=shop", "--class", "web", "--network", "private", ...sh, "--", "sh", "-c", "exec python3 -m http.server --bind 127.0.0.1 8000");
  await run("build", "team=shop", ...sh, "--", "sh", "-c", "while sleep 1; do :; done");
  await run("notebook", "owner=ada", ...sh, "--", "python3", "-c", "x = bytearray(80 << 20)\nimport time\nwhile True: time.sleep(1)");
  await run("review", "team=search", ...sh, "--", "sh", "-c", "while sleep 1; do :; done");
  for (const name of ["notebook", "review"]) await diapause("suspend", name);
  await eventually("the port listens", async () => (await view("api")).listens?.includes(8000));
  await diapause("suspend", "api");
  await diapause("resume", "api");
  await eventually("the port listens again", async () => (await view("api")).listens?.includes(8000));
}

async function take(name, { dark = false, width = 1280, height = 380 } = {}) {
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
  const { host } = await view("api"); // the machine's name is of no interest
  await page.evaluate((name) => {
    for (const e of document.querySelectorAll(".cell.host, dd")) if (e.textContent === name) e.textContent = "rack-7";
  }, host);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.screenshot({ path: `${dir}/${name}.png`, caret: "hide" });
}

await perform(page, async () => {
  await sessions();
  await login(page);
  await page.goto(`${gate}/?`);
  await page.locator(".rows .row").nth(4).waitFor();
  await shows(page.locator("#liveness"), /^live$/);
  await take("list");
  await take("phone", { dark: true, width: 360, height: 560 });
  await page.goto(`${gate}/#/s/api`);
  await shows(page.locator(".explained"), "it is suspended in");
  await shows(page.locator(".timeline"), "suspended");
  await page.locator(".ports a[href]").waitFor();
  await take("session", { dark: true, width: 1100, height: 1000 });
  await page.goto(`${gate}/#/s/agent-17/terminal`);
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await shows(page.locator(".said"), /^connected$/);
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("vim -u NONE -N -n -c 'syntax on' -c 'set number' /usr/lib/python3*/heapq.py\n");
  await shows(page.locator(".xterm-rows"), "heap");
  await take("terminal", { width: 1100, height: 760 });
  must((await page.locator(".said").innerText()) === "connected", "the terminal isn't connected");
});

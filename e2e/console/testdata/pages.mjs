// Uses the pages that aren't about one session. tools are console.mjs's: the browser's page, the command line, and checks.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const names = { fleet: "Fleet", usage: "Usage", policies: "Policies", access: "Keys and tokens", audit: "Audit", connect: "Connect" };

async function go({ page, shows }, key) {
  await page.locator("#pages").getByRole("link", { name: names[key], exact: true }).click();
  await shows(page.locator("h1"), names[key]);
}

// emptyPages checks that each says what to do first where there is nothing yet.
export async function emptyPages(tools) {
  const { page, shows, accessible } = tools;
  for (const [key, text] of Object.entries({ fleet: "It has no images yet", usage: "No session was there in that time", policies: "nothing: as the one below it", access: "diapause key ls", audit: "Nothing has happened yet", connect: "There is no session yet" })) {
    await go(tools, key);
    await shows(page.locator(".admin"), text);
    await accessible(`${names[key]}, empty`);
  }
  await page.locator("#pages").getByRole("link", { name: "Sessions", exact: true }).click();
}

export async function pages(tools, step) {
  const { page, must, view, diapause, eventually } = tools;
  await diapause("suspend", "web");
  await eventually("web is paused", async () => (await view("web")).state === "suspended");
  const asleep = await view("web");
  await fleet(tools);
  step("the fleet");
  await audit(tools);
  step("the audit, and its files");
  await policies(tools);
  step("policies, tested, simulated, changed and in conflict");
  await access(tools);
  step("keys, and a token that is revoked");
  const looked = await view("web");
  must(looked.state === "suspended" && looked.version === asleep.version, `looking has changed it: ${JSON.stringify(looked)}`);
  await connect(tools);
  step("programs to copy, each run");
  await page.locator("#pages").getByRole("link", { name: "Sessions", exact: true }).click();
}

// everyWay looks at a page as others see it.
async function everyWay({ page, accessible, narrow }, what) {
  await accessible(what);
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(`${what}, dark`);
  await page.emulateMedia({ colorScheme: "light" });
  await narrow(what);
}

async function fleet(tools) {
  const { page, shows, must, diapause } = tools;
  await go(tools, "fleet");
  const host = page.locator(".host");
  for (const text of ["takes sessions", "criu", "keeps memory", "Pressure"]) await shows(host, text);
  await shows(page.getByRole("region", { name: "What takes most" }), "web");
  await everyWay(tools, "the fleet");
  await host.getByRole("button", { name: /^Drain/ }).press("Enter");
  const dialog = page.getByRole("dialog");
  await shows(dialog, "Those in use are waited for");
  await shows(dialog, "work");
  await dialog.getByRole("checkbox").press("Space");
  await shows(dialog, "--force");
  await tools.accessible("the preview of a drain");
  await dialog.getByRole("button", { name: "Cancel" }).press("Enter");
  await dialog.waitFor({ state: "detached" });
  const ordered = async () => JSON.parse(await diapause("host", "ls", "--json"))[0].order;
  must(!(await ordered()), "a preview that was cancelled has drained the host");
  await host.getByRole("button", { name: /^Cordon/ }).click();
  await dialog.getByRole("button", { name: "Cordon", exact: true }).click();
  await shows(host, "cordoned");
  must((await ordered())?.cordoned, "the host isn't cordoned");
  await host.getByRole("button", { name: /^Uncordon/ }).click();
  await dialog.getByRole("button", { name: "Uncordon", exact: true }).click();
  await shows(host, "takes sessions");
}

async function file({ page }, name) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
  return readFile(await download.path(), "utf8");
}

async function audit(tools) {
  const { page, shows, must } = tools;
  await go(tools, "audit");
  const rows = page.getByRole("region", { name: "Transitions", exact: true }).last().locator("tbody tr");
  await shows(rows, "suspended");
  await everyWay(tools, "the audit");
  await page.getByLabel("Session", { exact: true }).fill("web");
  await page.getByLabel("Kind").selectOption("suspended");
  await shows(page.locator(".admin"), "session=web&type=suspended");
  await rows.getByRole("link", { name: "work", exact: true }).first().waitFor({ state: "detached" });
  const shown = await rows.count();
  must(shown > 0, "there is no transition of web");
  const lines = (await file(tools, "Export JSONL")).trim().split("\n").map((l) => JSON.parse(l));
  must(lines.length === shown && lines.every((l) => l.name === "web" && l.transition.type === "suspended"), `the file has ${JSON.stringify(lines)}`);
  const csv = (await file(tools, "Export CSV")).trim().split("\n");
  must(csv[0].startsWith("seq,at,session,") && csv.length === shown + 1, `the table has ${csv}`);
  await page.getByRole("button", { name: "Compare all records" }).click();
  await shows(page.locator(".admin"), "Every record is what its");
  await page.getByLabel("Actor").fill("nothing-has-this-name");
  await page.keyboard.press("Enter");
  await shows(page.locator(".admin"), "No transition matches");
}

async function policies(tools) {
  const { page, shows, must, diapause } = tools;
  await go(tools, "policies");
  await page.getByRole("link", { name: "class:web" }).click();
  await shows(page.locator("h1"), "Policy of class:web");
  await shows(page.getByRole("region", { name: "Holds" }), "built in");
  const text = page.getByLabel("What is set, as JSON");
  await text.fill("{");
  await page.getByRole("button", { name: "Test" }).click();
  await shows(page.locator(".outcome"), "no JSON object");
  await text.fill('{"grace": "1m"}');
  await page.getByRole("button", { name: "Test" }).click();
  await shows(page.locator(".admin"), "What it would do now");
  await page.getByRole("button", { name: "Simulate" }).click();
  await page.getByRole("img", { name: /^Simulation/ }).waitFor();
  await shows(page.getByRole("region", { name: "Simulation in numbers" }), "GiB h");
  await everyWay(tools, "a policy");
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page.locator(".outcome"), "Save: done.");
  await shows(page.getByRole("region", { name: "Holds" }), "class:web");
  await diapause("policy", "set", "class:web", "grace=2m");
  await text.fill('{"grace": "3m"}');
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page.locator(".outcome"), "it was changed meanwhile");
  must((await diapause("policy", "get", "class:web", "--json")).includes("2m"), "what was set meanwhile is gone");
  await page.getByRole("button", { name: "Save" }).click();
  await shows(page.locator(".outcome"), "Save: done.");
  await diapause("policy", "set", "class:web", "grace=");
}

async function access(tools) {
  const { page, shows, diapause, must } = tools;
  await diapause("token", "create", "--role", "reader", "--tenant", "other");
  await go(tools, "access");
  await shows(page.getByRole("region", { name: "Readers of images" }), "age1");
  const row = page.getByRole("region", { name: "Tokens" }).locator("tr").filter({ hasText: "other" });
  await shows(row, "reader");
  await everyWay(tools, "keys and tokens");
  await row.getByRole("button", { name: /^Revoke/ }).click();
  await shows(page.getByRole("dialog"), "diapause token revoke");
  await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click();
  await shows(row, "revoked");
  must((await row.getByRole("button").count()) === 0, "a token can be revoked twice");
}

// connect runs each program as it is copied.
async function connect(tools) {
  const { page, shows, must, run, view, diapause, eventually } = tools;
  const dir = await mkdtemp(join(tmpdir(), "diapause-snippets-"));
  const runs = {
    "curl": (f) => ["bash", ["-e", f]], "bash": (f) => ["bash", [f, "echo", "ran"]], "Python": (f) => ["python3", [f]], "Node.js": (f) => ["node", [f]], "Go": (f) => ["go", ["run", f]],
  };
  const ends = { "Go": ".go", "Node.js": ".mjs" };
  try {
    await go(tools, "connect");
    await page.getByRole("combobox", { name: "Session" }).fill("web");
    for (const role of ["publisher", "client"]) {
      await page.getByRole("combobox", { name: "Role" }).selectOption(role);
      await shows(page.locator(".admin"), `diapause token create --role ${role} --tenant default --session web --for 24h`);
      await page.getByRole("button", { name: "Make a token" }).click();
      await shows(page.locator(".snippet"), "dpt_");
      if (role === "publisher") await everyWay(tools, "connect");
      // The client has the session run first; the Go program is built once.
      for (const language of Object.keys(runs).filter((l) => role === "client" || l !== "Go")) {
        await page.getByRole("button", { name: language, exact: true }).click();
        const name = join(dir, `snippet${ends[language] ?? ""}`);
        await writeFile(name, await page.locator(".snippet code").evaluate((e) => e.textContent));
        const [program, args] = runs[language](name);
        await run(program, args, { timeout: 120_000, env: { ...process.env, GOWORK: "off", GO111MODULE: "off" } }).catch((e) => must(false, `${language} as ${role}: ${e.message}\n${e.stdout}`));
      }
    }
    await eventually("web runs", async () => (await view("web")).state === "running");
    await shows(page.locator(".admin"), "24h");
    must((await diapause("explain", "web")).includes("input"), "what the programs said isn't known");
  } finally {
    await rm(dir, { recursive: true });
  }
}

// pagesOf logs in with a role, which doesn't see all of them.
export async function pagesOf({ page, gate, diapause, shows, must }, role) {
  await page.goto((await diapause("login-link", "--at", gate, "--role", role)).trim());
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("link", { name: "Open the console" }).click();
  await shows(page.locator("#pages"), "Audit");
  const links = await page.locator("#pages a").allTextContents();
  must(links.join() === "Sessions,Usage,Audit", `as ${role} there are ${links}`);
  await page.evaluate(() => { location.hash = "#/fleet"; });
  await shows(page.locator(".admin"), "The role of this login may not see this");
}

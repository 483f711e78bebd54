// Logs Chromium in with a link, and opens a session's port in it. The arguments: the link, the port's URL, the page of
// the API and a directory for the browser's profile. It prints what each page shows, a JSON line each.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [link, port, docs, profile, modules] = process.argv.slice(2);
const WebSocket = createRequire(`${modules}/`)("ws");
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
const chromium = spawn("chromium", args, { stdio: "ignore" });
process.on("exit", () => chromium.kill("SIGKILL"));
const file = `${profile}/DevToolsActivePort`;
while (!existsSync(file) || !readFileSync(file, "utf8").includes("\n")) await pause(50);
const debug = `http://127.0.0.1:${readFileSync(file, "utf8").split("\n")[0]}/json`;
let page;
while (!(page = (await (await fetch(debug)).json()).find((p) => p.type === "page"))) await pause(50);

const socket = new WebSocket(page.webSocketDebuggerUrl);
await new Promise((done) => socket.on("open", done));
const waiting = new Map();
socket.on("message", (data) => {
  const m = JSON.parse(data);
  waiting.get(m.id)?.(m.result ?? {});
});
let last = 0;
const call = (method, params = {}) => new Promise((done) => {
  waiting.set(++last, done);
  socket.send(JSON.stringify({ id: last, method, params }));
});
const evaluate = async (expression) => (await call("Runtime.evaluate", { expression, awaitPromise: true })).result?.value;
const open = (url) => call("Page.navigate", { url });

// until waits for a text in the page, for as long as the test has.
async function until(text) {
  let shown;
  while (!(shown = `${await evaluate("document.body?.innerText")}`).includes(text)) await pause(100);
  console.log(JSON.stringify({ at: await evaluate("location.href"), shown, cookies: await evaluate("document.cookie") }));
}

await open(link);
await until("Log in");
await evaluate("document.getElementById('go').click()");
await until("is logged in");
await open(port);
await until("hello");
await open(docs);
await until("whoami");
await evaluate(`(() => {
  const op = [...document.querySelectorAll("details")].find((d) => d.querySelector("code").textContent.endsWith("/whoami"));
  op.open = true;
  op.querySelector("form").requestSubmit();
})()`);
await until('"role"');
await open(link);
await until("Log in");
await evaluate("document.getElementById('go').click()");
await until("no such token");
process.exit(0);

// Measures how long it takes from "Resume and connect" to the prompt of a session that slept, as the page sees it, and of that
// what the server takes: from the first message of the page's to the first that has output.
import { diapause, eventually, gate, login, more, perform, person, shows, suspend } from "./browser.mjs";

const rounds = Number(more[0]);
const { context, page } = await person();
await context.addInitScript(() => {
  window.times = {};
  const once = (what) => { window.times[what] ??= performance.now(); };
  const Real = WebSocket;
  window.WebSocket = class extends Real {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", ({ data }) => { if (typeof data !== "string") once("output"); });
    }

    send(data) {
      once("sent");
      super.send(data);
    }
  };
  addEventListener("click", (e) => { if (e.target.textContent === "Resume and connect") once("click"); }, true);
  const prompt = () => {
    if (window.times.click && /\$/.test(document.querySelector(".xterm-rows")?.textContent ?? "")) requestAnimationFrame(() => requestAnimationFrame(() => once("painted")));
    requestAnimationFrame(prompt);
  };
  addEventListener("DOMContentLoaded", prompt);
});

await perform(page, async () => {
  await login(page);
  await diapause("run", "--name", "plain", "--idle", "1h", "--tty", "--env", "PS1=$ ", "--env", "PATH=/usr/bin:/bin", "--", "bash", "--norc");
  const took = { painted: [], server: [] };
  for (let i = 0; i < rounds; i++) {
    await suspend("plain");
    await page.goto(`${gate}/?${i}#/s/plain/terminal`);
    await page.getByRole("button", { name: "Resume and connect" }).click();
    await shows(page.locator(".said"), /^connected$/);
    await eventually("the prompt is painted", () => page.evaluate(() => Boolean(window.times.painted)));
    const t = await page.evaluate(() => window.times);
    took.painted.push(t.painted - t.click);
    took.server.push(t.output - t.sent);
    await page.getByRole("button", { name: "Disconnect" }).click();
  }
  for (const [what, all] of Object.entries(took)) {
    all.sort((a, b) => a - b);
    const at = (p) => all[Math.min(all.length - 1, Math.floor(all.length * p))].toFixed(0);
    console.log(`${what}, of ${rounds} rounds: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, at most ${at(1)} ms`);
  }
});

// Looks at a list of many sessions while some of them change. The arguments after those of browser.mjs: how many there are, and how many
// changes are looked for. It prints "ready" once it looks, and in the end how many milliseconds after each change's label "at" the page showed it.
import { gate, login, more, must, perform, person, shows, step } from "./browser.mjs";

const [sessions, changes] = more.map(Number);
const { page } = await person();

await perform(page, async () => {
  await login(page);
  const began = Date.now();
  await page.goto(`${gate}/?`);
  await page.locator(".rows .row").first().waitFor();
  const first = Date.now() - began;
  await page.locator(".chip").first().filter({ hasText: `All ${sessions}` }).waitFor();
  await shows(page.locator("#liveness"), /^live$/);
  console.log(`of ${sessions} sessions the first were shown after ${first} ms, all after ${Date.now() - began} ms`);
  must((await page.locator(".rows .row").count()) < 80, "rows that aren't seen are in the page");
  step("many sessions");

  await page.evaluate(() => {
    window.shown = new Map();
    const look = (at) => {
      for (const cell of document.querySelectorAll(".cell.labels")) {
        const label = /at=(\d+)/.exec(cell.textContent)?.[1];
        if (label && !window.shown.has(label)) window.shown.set(label, at - Number(label) / 1000);
      }
    };
    // A change counts once it is painted: when the frame after its own begins.
    new MutationObserver(() => requestAnimationFrame(() => requestAnimationFrame(() => look(performance.timeOrigin + performance.now()))))
      .observe(document.querySelector(".rows"), { subtree: true, childList: true, characterData: true });
    window.longest = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({ type: "longtask" });
  });
  console.log("ready");
  await page.waitForFunction((n) => window.shown.size >= n, changes, { timeout: 0 }); // the test itself is bounded
  const { took, longest } = await page.evaluate(() => ({ took: [...window.shown.values()], longest: window.longest }));
  took.sort((a, b) => a - b);
  const at = (p) => took[Math.min(took.length - 1, Math.floor(took.length * p))].toFixed(0);
  console.log(`a change was painted after p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms, at most ${at(1)} ms; the page was busy for ${longest.toFixed(0)} ms at once at most`);
});

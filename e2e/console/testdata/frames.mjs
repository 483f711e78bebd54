// Measures how long it takes until a page paints something of a desktop with Chromium that slept: from opening the page to the
// picture of the last frame, which wakes nothing, and from "Resume and connect" to the desktop itself.
import { diapause, eventually, gate, login, more, must, perform, person, shows, suspend } from "./browser.mjs";

const rounds = Number(more[0]);
const { context, page } = await person();
await context.addInitScript(() => {
  window.times = {};
  const once = (what) => { window.times[what] ??= performance.now(); };
  addEventListener("click", (e) => { if (e.target.textContent === "Resume and connect") once("click"); }, true);
  const look = () => {
    const screen = document.querySelector(".desktop-part .screen");
    const live = screen?.querySelector(":scope > div canvas");
    if (screen?.querySelector(".last")?.checkVisibility()) once("picture");
    if (live?.width && live.getContext("2d").getImageData(0, 0, 1, 1).data[3]) once("live");
    requestAnimationFrame(look);
  };
  addEventListener("DOMContentLoaded", look);
});

await perform(page, async () => {
  await login(page);
  await diapause("desktop", "--name", "browser", "--idle", "1h", "--app", "chromium", "--", "data:text/html,<h1>here");
  await eventually("a page is open", () => diapause("exec", "browser", "pgrep", "-f", "type=renderer").then(() => true, () => false));
  const took = { "the picture, from opening the page": [], "the desktop, from the click": [] };
  for (let i = 0; i < rounds; i++) {
    await suspend("browser");
    await page.goto(`${gate}/?${i}#/s/browser/desktop`);
    await page.locator(".desktop-part .last").waitFor();
    await page.getByRole("button", { name: "Resume and connect" }).click();
    await shows(page.locator(".said"), /^connected$/);
    await eventually("the desktop is painted", () => page.evaluate(() => Boolean(window.times.live)));
    const t = await page.evaluate(() => window.times);
    must(t.picture < t.click, "the picture came after the click");
    took["the picture, from opening the page"].push(t.picture);
    took["the desktop, from the click"].push(t.live - t.click);
    await page.getByRole("button", { name: "Disconnect" }).click();
  }
  for (const [what, all] of Object.entries(took)) {
    all.sort((a, b) => a - b);
    const at = (p) => all[Math.min(all.length - 1, Math.floor(all.length * p))].toFixed(0);
    console.log(`${what}, of ${rounds} rounds: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, at most ${at(1)} ms`);
  }
});

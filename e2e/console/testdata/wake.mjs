// Opens a port of a session that sleeps: a page says how far it is, and makes way for what is served there.
import { diapause, eventually, gatePort, lightAndDark, must, narrow, shows, step, suspend, view } from "./browser.mjs";

export async function wakePage({ page, server }) {
  await diapause("run", "--name", "late", "--idle", "1h", "--network", "private", "--env", "DIAPAUSE_TEST_SERVER=1", "--env", "PATH=/usr/bin:/bin", "--", "sh", "-c", `until [ -e /tmp/go ]; do sleep 0.05; done; exec ${server}`);
  await suspend("late");
  await page.goto(`http://8080--late.default.localhost:${gatePort}/`);
  await shows(page.locator("h1"), "Session late is being resumed");
  await shows(page.locator("#state"), "waiting until port 8080 listens");
  must((await view("late")).state === "running", "a page that was opened hasn't resumed its session");
  await lightAndDark(page, "the page of a session that is resumed");
  await narrow(page, "the page of a session that is resumed");
  await diapause("exec", "late", "touch", "/tmp/go");
  await eventually("the page makes way for what is served", async () => (await page.locator("body").innerText().catch(() => "")) === "hello");
  await page.goBack();
  await diapause("rm", "--yes", "late");
  step("a page that waits for its session");
}

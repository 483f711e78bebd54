// Uses a desktop in the console: Xvnc with a terminal in it, which writes what is typed to /tmp/typed.
const server = "Xvnc :1 -rfbport 5900 -localhost -SecurityTypes None -geometry 640x480 -retro &\n" +
  "until xterm -geometry 60x10+0+0 -e sh -c 'while read -r line; do echo \"$line\" >>/tmp/typed; done'; do sleep 0.1; done\nwait";

export async function useDesktop({ page, gate, diapause, suspend, view, shows, step, must, eventually, accessible }) {
  await diapause("run", "--name", "screen", "--idle", "1h", "--network", "private", "--env", "DISPLAY=:1", "--env", "HOME=/root", "--env", "PATH=/usr/bin:/bin", "--", "sh", "-c", server);
  const asked = [];
  page.on("request", (r) => { if (r.url().includes("/vendor/novnc/")) asked.push(r.url()); });
  await page.goto(`${gate}/#/s/screen/desktop`);
  await shows(page.locator("h1"), "screen");
  const said = page.locator(".said");
  const connect = page.getByRole("button", { name: "Connect", exact: true });
  await connect.waitFor();
  must(asked.length === 0, `noVNC is loaded before it is used: ${asked}`);
  await connect.click();
  await shows(said, /^connected$/);

  // The picture has a pattern, and the terminal on it.
  const canvas = page.locator(".desktop-part .screen > div canvas");
  const colours = () => canvas.evaluate((c) => {
    if (!c.width || !c.height) return 0;
    const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
  const shown = async (what) => eventually(what, async () => (await canvas.count()) === 1 && (await colours()) > 1);
  await shown("the desktop shows pixels");
  await accessible("a desktop");
  const types = async (text) => {
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width / 8, box.y + box.height / 8);
    await page.keyboard.type(`${text}\n`);
  };
  const typed = async () => diapause("exec", "screen", "cat", "/tmp/typed").catch(() => "");
  await eventually("what is typed arrives", async () => {
    await types("one");
    return (await typed()).includes("one");
  });
  step("a desktop");

  const watch = page.getByRole("button", { name: "Watch only" });
  await watch.click();
  await shows(said, /^connected, to watch alone$/);
  await shown("who watches sees pixels");
  await types("lost");
  await watch.click();
  await shows(said, /^connected$/);
  await eventually("what is typed arrives again", async () => {
    await types("two");
    return (await typed()).includes("two");
  });
  must(!(await typed()).includes("lost"), "what was typed while it was only watched has come");
  step("a desktop that is only watched");

  await shareClipboard({ page, canvas, types, typed, must, eventually });
  step("a desktop's clipboard, both ways");

  const fit = page.getByRole("button", { name: "Size follows the window" });
  await fit.click();
  await eventually("the desktop has the window's size", () => canvas.evaluate((c) => c.width !== 640 && Math.abs(c.width - c.closest(".screen").clientWidth) < 2));
  await fit.click();
  step("a desktop that has the window's size");

  await suspend("screen");
  const wake = page.getByRole("button", { name: "Resume and connect" });
  await wake.waitFor();
  await page.locator(".desktop-part .last").waitFor();
  const asleep = await view("screen");
  must(asleep.state === "suspended", "a page that shows a desktop has resumed it");
  const seen = await watched(page);
  await wake.click();
  await shows(said, /^connected$/);
  await shown("the desktop shows pixels after a resume");
  await neverBlank({ page, seen, must, eventually });
  await eventually("what is typed arrives after a resume", async () => {
    await types("three");
    return (await typed()).includes("three");
  });
  step("a desktop through a suspend");

  await suspend("screen");
  await wake.waitFor();
  await diapause("resume", "screen");
  await shows(said, /^connected$/);
  await shown("the desktop comes back by itself after a resume");
  await page.locator(".desktop-part .screen > div canvas").press("Shift+Escape");
  must((await page.evaluate(() => document.activeElement.textContent)) === "Disconnect", "Shift-Esc doesn't leave the desktop");
  await page.getByRole("button", { name: "Disconnect" }).click();
  await diapause("rm", "--yes", "screen");
  await sleepingDesktop({ page, gate, diapause, suspend, view, shows, step, must, eventually, accessible });
  await page.goto(`${gate}/#/`);
  step("a desktop that comes back by itself");
}

// watched notes what a page shows of a desktop whenever the browser paints: the picture of the last frame, greyed, or the desktop itself.
async function watched(page) {
  return page.evaluateHandle(() => {
    const seen = { picture: 0, live: 0, blank: 0, mistaken: 0 };
    const look = () => {
      const screen = document.querySelector(".desktop-part .screen");
      const last = screen?.querySelector(".last");
      const live = screen?.querySelector(":scope > div canvas");
      const painted = Boolean(live?.width && live.getContext("2d").getImageData(0, 0, 1, 1).data[3]);
      const pictured = Boolean(last?.checkVisibility() && last.width);
      if (pictured && getComputedStyle(last).filter === "none") seen.mistaken++;
      if (pictured && !painted) seen.picture++;
      if (painted && !pictured) seen.live++;
      if (!painted && !pictured) seen.blank++;
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
    return seen;
  });
}

// neverBlank wants the picture to be seen until the desktop is, and greyed for as long as it is seen.
async function neverBlank({ page, seen, must, eventually }) {
  const now = () => page.evaluate((s) => ({ ...s }), seen);
  await eventually("the desktop takes the place of its picture", async () => (await now()).live > 0);
  const { picture, blank, mistaken } = await now();
  must(picture > 0 && blank === 0, `while it was resumed the page showed the picture ${picture} times, and nothing ${blank} times`);
  must(mistaken === 0, `the picture was shown as if it were the desktop, ${mistaken} times`);
}

// shareClipboard pastes on the desktop what this browser has copied, and the other way round, once a person wants that.
async function shareClipboard({ page, canvas, types, typed, must, eventually }) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const share = page.getByRole("button", { name: "Share the clipboard" });
  await page.evaluate(() => navigator.clipboard.writeText("kept"));
  await types("private");
  await eventually("a word is selected", async () => {
    const box = await canvas.boundingBox();
    await page.mouse.dblclick(box.x + 12, box.y + 8);
    return (await typed()).includes("private");
  });
  must((await page.evaluate(() => navigator.clipboard.readText())) === "kept", "the clipboard is shared before a person wants that");
  await share.click();
  await page.evaluate(() => navigator.clipboard.writeText("frombrowser"));
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await eventually("what the browser has copied is pasted on the desktop", async () => {
    await canvas.focus();
    await page.keyboard.press("Shift+Insert");
    await page.keyboard.press("Enter");
    return (await typed()).includes("frombrowser");
  });
  await page.evaluate(() => navigator.clipboard.writeText("other"));
  await eventually("what is selected on the desktop is in the browser's clipboard", async () => {
    const box = await canvas.boundingBox();
    await page.mouse.dblclick(box.x + 12, box.y + 8);
    return (await page.evaluate(() => navigator.clipboard.readText())) !== "other";
  });
  await share.click();
}

// sleepingDesktop looks at a desktop that sleeps: it shows what it showed last, and goes on sleeping.
async function sleepingDesktop({ page, gate, diapause, suspend, view, shows, step, must, eventually, accessible }) {
  await diapause("desktop", "--name", "asleep", "--idle", "1h", "--size", "640x480", "--app", "xterm", "--", "-bg", "white", "-fg", "black", "-e", "sh", "-c", "while :; do echo here; sleep 1; done");
  await eventually("a terminal is on the desktop", () => diapause("exec", "asleep", "pgrep", "-x", "xterm").then(() => true, () => false));
  await suspend("asleep");
  await page.goto(`${gate}/#/s/asleep/desktop`);
  await shows(page.locator(".sleeps"), /^asleep$/);
  const last = page.locator(".desktop-part .last");
  await last.waitFor();
  const [width, white] = await last.evaluate((c) => {
    const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
    return [c.width, data.filter((v, i) => i % 4 === 1 && v > 0xe0).length];
  });
  must(width === 640 && white > 1000, `the picture is ${width} pixels wide, and ${white} of them are white`);
  await accessible("a desktop that sleeps");
  must((await view("asleep")).state === "suspended", "the picture of a desktop has resumed it");
  await diapause("rm", "--yes", "asleep");
  step("a desktop that sleeps");
}

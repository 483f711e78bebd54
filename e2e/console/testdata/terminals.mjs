// Uses terminals as people do who have an editor open, or share one.
import { cutAll, diapause, eventually, gate, login, mend, must, person, shows, step, suspend } from "./browser.mjs";

const rows = (page) => page.locator(".xterm-rows");
const said = (page) => page.locator(".terminal-part .said");
const wake = (page) => page.getByRole("button", { name: "Resume and connect" });
const lines = async (page) => (await rows(page).locator("> div").allTextContents()).map((l) => l.replaceAll("\u00a0", " ").trimEnd()).join("\n").trimEnd();

async function type(page, text) {
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type(text);
}

async function connect(page, name) {
  await page.goto(`${gate}/#/s/${name}/terminal`);
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await shows(said(page), /^connected$/);
}

async function resume(page) {
  await wake(page).click();
  await shows(said(page), /^connected$/);
}

// editor has vim open through two suspends: with the page that shows it, and with a page that is loaded meanwhile.
export async function editor({ page }) {
  await diapause("run", "--name", "edit", "--idle", "1h", "--tty", "--env", "PS1=$ ", "--env", "TERM=xterm-256color", "--env", "HOME=/tmp", "--env", "PATH=/usr/bin:/bin", "--", "bash", "--norc");
  await connect(page, "edit");
  await type(page, "printf '\\033]2;mi''ne\\007'; vim -u NONE -i NONE -n --cmd 'set nocompatible mouse=a ttymouse=sgr' /tmp/note\n");
  await shows(rows(page), "~");
  await type(page, "ione\ntwo\u001b");
  const typed = async (text) => {
    await eventually(`vim has taken ${text}`, async () => { const all = await lines(page); return all.includes(`\n${text}\n`) && !all.includes("-- INSERT --"); });
    return lines(page);
  };
  const before = await typed("two");
  await suspend("edit");
  await wake(page).waitFor();
  must(await lines(page) === before, `while it sleeps the terminal shows\n${await lines(page)}\nand not\n${before}`);
  await resume(page);
  must(await lines(page) === before, `after a resume the terminal shows\n${await lines(page)}\nand not\n${before}`);
  await type(page, "othree\u001b");
  const mid = await typed("three");
  await suspend("edit");
  await page.reload();
  await resume(page);
  await eventually("a page that is new shows the same", async () => (await lines(page)) === mid);
  await shows(page.locator(".terminal-part .bar"), "Its title: “mine”");
  // The mouse is the editor's still: a click moves its cursor.
  await page.evaluate(() => { document.querySelector(".screen").scrollTop = 0; });
  const first = await rows(page).locator("> div").first().boundingBox();
  await page.mouse.click(first.x + 4, first.y + first.height / 2);
  await type(page, "x");
  await eventually("a click moves the cursor", async () => (await lines(page)).startsWith("ne\ntwo\nthree"));
  await type(page, ":wq\n");
  await eventually("the shell's screen is back", async () => (await lines(page)).startsWith("$ printf"));
  must((await diapause("exec", "edit", "cat", "/tmp/note")) === "ne\ntwo\nthree\n", "vim has written another text");

  // What is pasted is marked as that: the shell runs none of it.
  await page.locator(".xterm-helper-textarea").evaluate((e) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "echo $((40+1))\necho $((40+2))\n");
    e.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  });
  await shows(rows(page), "echo $((40+2))");
  must(!/^4[12]$/m.test(await lines(page)), `what was pasted has run:\n${await lines(page)}`);
  await type(page, "\n");
  await eventually("what was pasted runs", async () => /^42$/m.test(await lines(page)));
  await page.goto(`${gate}/#/`);
  await diapause("rm", "--yes", "edit");
  step("vim through two suspends");
}

// together has two people in one terminal, one of them at a phone. Both type at once, also while the connections are cut.
export async function together({ page }) {
  await diapause("run", "--name", "both", "--idle", "1h", "--tty", "--env", "PS1=$ ", "--env", "PATH=/usr/bin:/bin", "--", "sh");
  const other = await person({ viewport: { width: 360, height: 640 } });
  await login(other.page);
  const people = [page, other.page];
  await connect(other.page, "both");
  await connect(page, "both"); // the size is that of who came last
  const same = async () => (await lines(page)) === (await lines(other.page));
  await type(page, "seq -f 'line %g' 60; cat >/tmp/both\n");
  await eventually("both show the same", async () => (await lines(page)).includes("line 60") && await same());
  await eventually("the phone shows the cursor's line", () => other.page.evaluate(() => {
    const screen = document.querySelector(".screen").getBoundingClientRect();
    const cursor = document.querySelector(".xterm-cursor").getBoundingClientRect();
    return cursor.top >= screen.top && cursor.bottom <= screen.bottom && cursor.left >= screen.left && cursor.right <= screen.right;
  }));

  const typed = [[], []]; // one types small letters, one capitals
  const turn = async (from, to) => Promise.all(people.map(async (p, who) => {
    const part = Array.from({ length: to - from }, (_, i) => String.fromCharCode((who ? 65 : 97) + (from + i) % 26)).join("");
    typed[who].push(part);
    await type(p, `${part}\n`);
  }));
  await turn(0, 30);
  cutAll();
  for (const p of people) await shows(said(p), "The connection is lost");
  await turn(30, 50);
  mend();
  for (const p of people) await shows(said(p), /^connected$/);
  await turn(50, 80);
  const text = async () => diapause("exec", "both", "cat", "/tmp/both");
  const of = (who, t) => t.replace(who ? /[^A-Z]/g : /[^a-z]/g, "");
  await eventually("all that both typed has come", async () => {
    const t = await text();
    return [0, 1].every((who) => of(who, t).length >= typed[who].join("").length);
  });
  const has = await text();
  for (const who of [0, 1]) must(of(who, has) === typed[who].join(""), `of ${typed[who].join("")} it got ${of(who, has)}`);
  must(has.split("\n").length === 7, `of six lines it got\n${has}`);
  await eventually("both show the same in the end", same);
  await page.goto(`${gate}/#/`);
  await other.context.close();
  await diapause("rm", "--yes", "both");
  step("two people in one terminal");
}

// watchShared has a browser that isn't logged in watch a terminal by the link of a share, and finds that it can do no more.
export async function watchShared({ browser, gate, diapause, view, must, eventually, step }) {
  const { id, link } = JSON.parse(await diapause("share", "work", "--json", "--for", "1h", "--at", gate));
  const token = link.split("#")[1];
  const other = await browser.newContext();
  const page = await other.newPage();
  const wrong = [];
  const asked = [];
  page.on("request", (r) => {
    asked.push(r.url());
    if (r.url().includes(token)) wrong.push(`the token is in ${r.url()}`);
  });
  page.on("pageerror", (e) => wrong.push(`an error of a script: ${e.stack}`));
  page.on("console", (m) => { if (/Content Security Policy|Trusted/i.test(m.text())) wrong.push(m.text()); });
  const state = page.locator("#state");
  const rows = page.locator(".xterm-rows");
  const says = (text) => state.filter({ hasText: text }).waitFor();
  const shows = (text) => eventually(`the shared terminal shows ${text}`, async () => (await rows.textContent()).includes(text));

  await page.goto(link);
  await says(/^live$/);
  must(!page.url().includes(token), `the address bar has ${page.url()}`);
  await diapause("exec", "work", "sh", "-c", "for t in /dev/pts/[0-9]*; do echo sha''red >$t; done");
  await shows("shared");
  const before = (await view("work")).version;
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo ty''ped\n");
  await page.reload(); // the tab keeps the token
  await says(/^live$/);
  await shows("shared");
  must(!(await rows.textContent()).includes("typed"), "what was typed into a shared terminal has come");
  must((await view("work")).version === before, "watching has changed the session");
  await page.goto(`${gate}/`);
  await page.locator("main").filter({ hasText: "This browser isn't logged in" }).waitFor();
  must(!asked.some((u) => /\/sessions/.test(u)), `the page asks for ${asked.filter((u) => /\/sessions/.test(u))}`);

  await page.goto(link);
  await says(/^live$/);
  await diapause("unshare", "work", id);
  await says("The share has ended");
  await page.goto(`${gate}/shared#dpt_none`);
  await says("The share has ended");
  await other.close();
  must(wrong.length === 0, `on the page of a share: ${wrong.join("\n")}`);
  step("a shared terminal, without a login");
}

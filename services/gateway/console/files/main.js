// Begins the console: who is logged in, which page is shown, and how live it is.
import { ask, onEnd } from "./api.js";
import { element, put, say, unreachable } from "./dom.js";
import { moment } from "./format.js";
import { showList } from "./list.js";
import { Live } from "./live.js";
import { navigation, pageOf, pagesFor } from "./pages.js";
import { closePalette, openPalette } from "./palette.js";

const main = document.getElementById("main");
const liveness = document.getElementById("liveness");
const searching = document.getElementById("search");
const who = document.getElementById("who");
const pages = document.getElementById("pages");

const live = new Live();
let me = null;
let view = null; // that is shown: {end, title, find}
let out = false; // the login has ended

document.getElementById("skip").onclick = (e) => {
  e.preventDefault();
  main.focus();
};

function loggedOut(problem) {
  if (out) return;
  out = true;
  live.stop();
  live.sessions.clear();
  closePalette(); // it shows names
  for (const asks of document.querySelectorAll("dialog[open]")) asks.close(); // so do these
  view?.end();
  view = null;
  who.hidden = searching.hidden = pages.hidden = true;
  put(liveness, "");
  document.title = "Diapause: log in";
  main.replaceChildren(element("section", { className: "note" },
    element("h1", { textContent: me ? "The login has ended" : "This browser isn't logged in" }),
    element("p", { textContent: me ? `${problem.text}. Nothing on this page was true any more.` : "A link that is good for once logs it in." }),
    element("p", {}, "Print one, open it, and come back here: ", element("code", { textContent: "diapause login-link" })),
    element("p", {}, element("button", { type: "button", textContent: "Try again", onclick: () => location.reload() }), " ", element("a", { href: "/login", textContent: "The login of this browser" }))));
  main.focus();
}

onEnd(loggedOut);

// Another tab has logged this browser out, or in as someone else: what this one shows was for who was logged in before.
addEventListener("storage", (e) => {
  if (e.key === null || e.key === "diapause-page") location.reload();
});

// A page that the browser has kept, for the way back, may be of a login that has ended meanwhile.
addEventListener("pageshow", (e) => {
  if (e.persisted) location.reload();
});

function showLiveness() {
  if (out) return;
  const text = live.live ? "live" : live.loaded ? `not live since ${moment(live.heardAt)}` : live.problem ? "no connection" : "connecting…";
  liveness.className = live.live ? "live" : "cut";
  put(liveness, text);
}

// parse reads the address: #/ is the list, #/s/NAME a session, #/s/NAME/terminal its terminal, #/fleet another page, and #/s/NAME/desktop its desktop.
function parse() {
  const [, kind, name, part] = location.hash.slice(1).split("/");
  try {
    return kind === "s" && name ? { name: decodeURIComponent(name), part } : { page: pageOf(kind), of: decodeURIComponent(name ?? "") };
  } catch { // not of ours
    return {};
  }
}

// showUnreachable stands for a page whose files don't come.
function showUnreachable() {
  main.replaceChildren(element("section", { className: "note" }, element("h1", { textContent: "No connection" }), unreachable()));
  return { end() {}, title: "No connection" };
}

let shows = 0;

async function route() {
  if (out) return;
  const { name, part, page, of } = parse();
  const turn = ++shows;
  let show;
  try {
    show = name ? (await import("./session.js")).showSession : page ? await page.load() : showList;
  } catch { // its files come when they are asked for first
    show = showUnreachable;
  }
  if (turn !== shows || out) return; // another one was asked for meanwhile
  view?.end();
  closePalette();
  view = show(main, live, { name, part, of, me });
  navigation(pages, me, page?.key ?? (name ? null : ""));
  document.title = `${view.title} – Diapause`;
  scrollTo(0, 0);
}

function search() {
  if (!out && me) openPalette(live, pagesFor(me)); // at once: what is typed next is for it
}

addEventListener("hashchange", async () => {
  await route();
  if (!view?.back?.()) main.focus({ preventScroll: true });
  say(view?.title ?? "");
});

addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k") {
    if (e.target.closest?.(".xterm")) return; // it is the program's there
    e.preventDefault();
    search();
    return;
  }
  if (e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest?.("input, textarea, select, dialog")) {
    if (view?.find) {
      e.preventDefault();
      view.find();
    }
  }
});
searching.onclick = search;

function whose() {
  if (me.session) return `${me.role} of ${me.tenant}/${me.session}`;
  return me.tenant ? `${me.role} of ${me.tenant}` : me.role ?? me.actor;
}

async function begin() {
  for (let wait = 1_000; ; wait = Math.min(10_000, wait * 2)) {
    try {
      me = await ask("GET", "/whoami");
      break;
    } catch (e) {
      if (out) return;
      main.replaceChildren(element("p", { className: "note", textContent: `${e.text ?? e.message}. It is tried again.` }));
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  who.hidden = searching.hidden = false;
  put(who, whose());
  if (me.expires) who.title = `Logged in until ${new Date(me.expires).toLocaleString()}`;
  live.watch(showLiveness);
  showLiveness();
  live.run();
  await route();
}

begin();

// Logs this browser in with the code of a link, and has hosts of ports give it a cookie. Codes come in the fragment,
// which no server gets, and leave the address bar at once.

const key = "diapause-page";
const given = new URLSearchParams(location.hash.slice(1));
history.replaceState(null, "", location.pathname);

const text = document.getElementById("text");
const go = document.getElementById("go");
const out = document.getElementById("out");
const there = document.getElementById("console");

async function ask(method, path, body) {
  const headers = { Accept: "application/json" };
  const page = localStorage.getItem(key);
  if (page) headers["Diapause-Page"] = page;
  if (body) headers["Content-Type"] = "application/json";
  const r = await fetch(`/api/v1${path}`, { method, headers, body: body && JSON.stringify(body), redirect: "error", credentials: "same-origin" });
  const answer = await r.json().catch(() => ({}));
  if (!r.ok) throw Object.assign(new Error([answer.detail ?? r.statusText, answer.hint].filter(Boolean).join(". ")), { status: r.status });
  return answer;
}

function button(label, act) {
  go.textContent = label;
  go.hidden = false;
  go.onclick = async () => {
    go.disabled = true;
    try {
      await act();
    } catch (e) {
      text.textContent = `${e.message}.`;
    }
    go.disabled = false;
  };
}

function whose(who) {
  if (who.session) return `session ${who.tenant}/${who.session}`;
  return who.tenant ? `tenant ${who.tenant}` : "every tenant";
}

async function show() {
  go.hidden = true;
  try {
    const who = await ask("GET", "/whoami");
    text.textContent = `This browser is logged in: ${who.role} of ${whose(who)}, until ${new Date(who.expires).toLocaleString()}.`;
    out.hidden = there.hidden = false;
  } catch (e) {
    text.textContent = e.status === 401 ? "This browser isn't logged in. `diapause login-link` prints a link that does it." : `${e.message}.`;
  }
}

out.onclick = async () => {
  await ask("POST", "/logout").catch(() => {});
  localStorage.removeItem(key);
  out.hidden = there.hidden = true;
  await show();
};

async function enter(host, state) {
  const { to } = await ask("POST", "/login/port", { host, state });
  location.replace(to);
}

// A browser that takes no cookies would come back again and again.
function justWas(host) {
  const last = JSON.parse(sessionStorage.getItem("diapause-last") ?? "{}");
  sessionStorage.setItem("diapause-last", JSON.stringify({ host, at: Date.now() }));
  return last.host === host && Date.now() - last.at < 10000;
}

const host = given.get("host");
if (given.has("code")) {
  text.textContent = "Log this browser in with the link?";
  button("Log in", async () => {
    const login = await ask("POST", "/login", { code: given.get("code") });
    localStorage.setItem(key, login.page);
    await show();
  });
} else if (host) {
  const open = () => enter(host, given.get("state"));
  text.textContent = `Opening ${host} …`;
  if (justWas(host)) {
    text.textContent = `${host} has sent this browser back. Does it take cookies?`;
    button("Try again", open);
  } else {
    await open().catch(async (e) => {
      text.textContent = e.status === 401 ? `${host} is for those who are logged in. Log in with a link of \`diapause login-link\` in another tab, then go on.` : `${e.message}.`;
      button("Go on", open);
    });
  }
} else {
  await show();
}

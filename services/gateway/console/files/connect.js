// The page that helps a program connect: a token, and programs to copy that use it.
import { ask } from "./api.js";
import { command, element, put, say } from "./dom.js";
import { order } from "./format.js";
import { Page, field } from "./admin.js";
import { languages, snippet } from "./snippets.js";

const hours = "24h";
const placeholder = "TOKEN";

export function showConnect(main, live) {
  const page = new Page(main, "Connect", "Programs to copy, for this installation. Each says that a session is in use, which keeps it awake.");
  const names = [...live.sessions.values()].sort(order).map((s) => s.name);
  const session = element("input", { value: names[0] ?? "work", autocomplete: "off", spellcheck: false, required: true, pattern: "([A-Za-z0-9_\\-]{1,64}/)?[A-Za-z0-9_\\-]{1,64}" });
  session.setAttribute("list", "connect-sessions");
  const role = element("select", {}, [["publisher", "publisher: says what is in use"], ["client", "client: resumes and suspends, too"]].map(([value, text]) => element("option", { value, textContent: text })));
  const made = element("p", { role: "status" });
  const form = element("form", { className: "filters" }, element("datalist", { id: "connect-sessions" }, names.slice(0, 500).map((n) => element("option", { value: n }))),
    field("Session", session), field("Role", role), element("button", { textContent: `Make a token for ${hours}` }));
  if (names.length === 0 && live.loaded) page.root.append(element("p", { textContent: "There is no session yet. Start one first:" }), element("p", {}, command("diapause run --name work --tty -- bash")));
  const line = element("p");
  const code = element("code");
  const shown = element("div", { className: "snippet", tabIndex: 0, role: "region", "aria-label": "Program" }, element("pre", {}, code));
  const copy = element("button", { type: "button", textContent: "Copy the program" });
  let token = placeholder;
  let language = languages[0];
  const tabs = languages.map((name) => {
    const b = element("button", { type: "button", className: "chip", textContent: name, "aria-pressed": String(name === language) });
    b.onclick = () => {
      language = name;
      for (const t of tabs) t.setAttribute("aria-pressed", String(t === b));
      draw();
    };
    return b;
  });
  const parts = () => (session.value.includes("/") ? session.value.split("/") : ["default", session.value]);
  const draw = () => {
    const [tenant, id] = parts();
    code.replaceChildren(session.checkValidity() ? snippet(language, { origin: location.origin, token, session: session.value, role: role.value }) : "");
    line.replaceChildren(command(`diapause token create --role ${role.value} --tenant ${tenant} --session ${id} --for ${hours}`));
  };
  const another = () => { // the token is for what was chosen when it was made
    token = placeholder;
    put(made, "");
    draw();
  };
  session.oninput = role.onchange = another;
  form.onsubmit = async (e) => {
    e.preventDefault();
    const [tenant, id] = parts();
    const wanted = `${session.value} ${role.value}`;
    await page.act("Make a token", async () => {
      const t = await ask("POST", "/tokens", { role: role.value, tenant, session: id, for: hours }, page.signal);
      if (wanted !== `${session.value} ${role.value}`) return; // another was chosen meanwhile
      token = t.token;
      put(made, `The token ${t.id} is in the programs below, and is shown this once. It is valid until ${new Date(t.expires).toLocaleString()}.`);
      draw();
    });
  };
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say("Copied");
    } catch { // a page without TLS beyond this machine has no clipboard
      getSelection().selectAllChildren(code);
    }
  };
  page.root.append(form, line, made, element("div", { className: "choice", role: "group", "aria-label": "Language" }, tabs), shown, element("p", { className: "choice" }, copy));
  if (location.protocol === "https:") page.root.append(element("p", { className: "why", textContent: "Where the certificate is one of the gateway's own, programs trust it by its trust.pem: curl --cacert trust.pem, SSL_CERT_FILE for Go and Python, NODE_EXTRA_CA_CERTS for Node.js." }));
  draw();
  return page;
}

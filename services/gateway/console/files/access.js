// Who may read images, who signs them, and which tokens there are.
import { ask } from "./api.js";
import { now } from "./clock.js";
import { command, element } from "./dom.js";
import { moment } from "./format.js";
import { Page, table } from "./admin.js";
import { sure } from "./confirm.js";

export function showAccess(main) {
  const page = new Page(main, "Keys and tokens", "Who can open images, which hosts sign them, and who may ask.");
  const readers = page.section("Readers of images");
  const writers = page.section("Writers of images");
  const tokens = page.section("Tokens");
  const keys = ask("GET", "/keys", undefined, page.signal);
  page.reads(readers, () => keys, (k) => [
    k.readers?.length ? table("Readers of images", ["Name", "Use", "Recipient", "Host", "Added", "By"], k.readers.map((r) => [r.name, r.use, element("code", { textContent: r.recipient }), r.host, moment(r.added), r.by])) : element("p", { textContent: "None yet: the first host that starts registers its own." }),
    element("p", { textContent: `${k.keys} keys of ${k.lineages} lineages (${k.kind}), generation ${k.generation}${k.behind ? `; ${k.behind} aren't wrapped to exactly these readers yet` : ""}${k.locked ? `; ${k.locked} can't be opened here` : ""}.` }),
    !k.readers?.some((r) => r.use === "escrow") && element("p", { className: "banner warnings", textContent: "No reader is kept away from the hosts: who loses their keys loses all images." }),
    element("p", {}, command("diapause key ls"), " ", command("diapause key add RECIPIENT --name NAME --escrow"))]);
  page.reads(writers, () => keys, (k) => (k.writers?.length
    ? table("Writers of images", ["Host", "Key", "Added", "By", "Revoked"], k.writers.map((w) => [w.host, element("code", { textContent: w.key }), moment(w.added), w.by, w.revoked ? moment(w.revoked) : ""]))
    : element("p", { textContent: "None yet: a host that starts registers its own." })));
  const read = () => page.reads(tokens, (signal) => ask("GET", "/tokens", undefined, signal), (all) => tokensOf(page, all, read));
  read();
  return page;
}

function standing(t) {
  if (t.revoked) return `revoked ${moment(t.revoked)}`;
  return Date.parse(t.expires) < now() ? "expired" : `until ${moment(t.expires)}`;
}

function tokensOf(page, all, again) {
  const line = element("p", {}, command("diapause token create --role reader --tenant default --for 90d"));
  if (all.length === 0) return [element("p", { textContent: "No token was made yet:" }), line];
  const row = (t) => {
    const b = element("button", { type: "button", textContent: "Revoke", "aria-label": `Revoke ${t.id}` });
    b.onclick = async () => {
      const about = element("p", { textContent: t.role === "login" ? "The browser with it is logged out; it may be this one." : "Who has it is refused from now on. That can't be taken back." });
      if (!await sure({ title: `Revoke ${t.id}?`, about, line: `diapause token revoke ${t.id}`, ok: "Revoke" })) return;
      await page.act(`Revoke ${t.id}`, () => ask("DELETE", `/tokens/${t.id}`));
      again();
    };
    const over = t.revoked || Date.parse(t.expires) < now();
    return [element("code", { textContent: t.id }), t.as ? `${t.role} as ${t.as}` : t.role, t.tenant ? `${t.tenant}${t.session ? `/${t.session}` : ""}` : "every tenant", t.by, moment(t.created), t.used ? moment(t.used) : "never", standing(t), over ? "" : b];
  };
  const newest = [...all].sort((a, b) => b.created.localeCompare(a.created));
  return [table("Tokens", ["Id", "Role", "Of", "Made by", "Made", "Used", "Valid", "Action"], newest.map(row)), element("p", {}, command("diapause token ls")), line];
}

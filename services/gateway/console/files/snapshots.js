// A session's snapshots, as the tree that rollbacks and forks make of them, and what can be done with each.
import { ask } from "./api.js";
import { chartsOf } from "./charts.js";
import { sure } from "./confirm.js";
import { command, element, put } from "./dom.js";
import { bytes, moment } from "./format.js";
import { reads } from "./parts.js";

// tree gives the snapshots by what they follow: the newest of each line first, each with the lines that begin at it besides.
// A line is the one that leads to the head; if none does, to the newest.
export function tree(all) {
  const known = new Map(all.map((s) => [s.id, s]));
  const after = new Map(); // ids of those that follow, by id; of the first ones by ""
  for (const s of all) {
    const before = s.parent && s.parent !== s.id && known.has(s.parent) ? s.parent : "";
    after.set(before, [...after.get(before) ?? [], s]);
  }
  const main = new Set(); // the ids up to the head
  for (let s = all.find((a) => a.head); s && !main.has(s.id); s = known.get(s.parent)) main.add(s.id);
  const lines = (from) => (after.get(from) ?? []).map(line).reverse();
  function line(first) {
    const items = [];
    for (let s = first; s;) {
      const next = after.get(s.id) ?? [];
      const on = next.find((n) => main.has(n.id)) ?? next.at(-1);
      items.unshift({ snapshot: s, beside: next.filter((n) => n !== on).map(line).reverse() });
      s = on;
    }
    return items;
  }
  return lines("");
}

// Of a session: what its page has that this uses.
//   name, path, tenant, may(right), act(button, what, fn), forks(): those that were made of it
export function snapshotsOf(body, of, signal) {
  return reads(body, `${of.path}/snapshots`, signal, (all) => {
    if (all.length === 0) return [element("p", { textContent: "None yet: the first is made when it is suspended, or by" }), command(`diapause checkpoint ${of.name}`)];
    const forks = Map.groupBy(of.forks(), (s) => s.origin.snapshot);
    return [element("div", { className: "tree" }, tree(all).map((line) => list(line, of, forks))), chartsOf(all), element("p", {}, command(`diapause snapshots ${of.name}`))];
  }, () => of.forks().map((s) => [s.name, s.origin.snapshot]));
}

function list(line, of, forks) {
  return element("ul", {}, line.map(({ snapshot, beside }) => element("li", {}, about(snapshot, of, forks.get(snapshot.id) ?? []),
    beside.map((l) => element("div", { className: "beside" }, element("p", { className: "why", textContent: `What followed ${snapshot.id} before a rollback:` }), list(l, of, forks))))));
}

function about(s, of, forks) {
  const why = [moment(s.at), `${bytes(s.stored_bytes)} stored`, s.trigger, s.description ?? s.reason, s.by && `by ${s.by}`, s.restores && `resumed from ${s.restores} ${s.restores === 1 ? "time" : "times"}`].filter(Boolean).join(" · ");
  const acts = element("div", { className: "actions" });
  const details = element("details", {}, element("summary", { textContent: "Actions", "aria-label": `Actions of snapshot ${s.id}` }), acts);
  details.show = details.ontoggle = () => { if (!acts.firstChild) acts.append(...actions(s, of)); };
  return element("div", { className: "snapshot" }, element("span", { className: "dot", "aria-hidden": "true" }), element("b", { textContent: s.id }), s.head && element("span", { className: "badge", textContent: "head" }), " ", element("span", { className: "why", textContent: why }),
    s.error && element("p", { className: "failed", textContent: s.error }),
    forks.length > 0 && element("p", { className: "why" }, "Forked as ", forks.map((f, i) => [i > 0 && ", ", element("a", { href: `#/s/${encodeURIComponent(f.name)}`, textContent: f.name })]).flat()), details);
}

function actions(s, of) {
  const action = (text, right, line, fn, className) => {
    const b = element("button", { type: "button", textContent: text, className });
    of.may(b, right);
    b.onclick = () => fn(b);
    return element("div", { className: "action" }, b, command(line));
  };
  const asked = (text, options, call) => async (b) => {
    if (await sure(options)) of.act(b, text, call);
  };
  const back = `diapause rollback ${of.name} ${s.id}`;
  const away = `diapause snapshots rm ${of.name} ${s.id}`;
  const said = element("span", { className: "why", role: "status" });
  return [
    fork(s, of),
    action("Roll back to it", "own", back, asked(`Roll back to ${s.id}`, {
      title: `Roll ${of.name} back to ${s.id}?`, line: back, ok: "Roll back",
      about: [element("p", { textContent: `It goes on as it was at ${moment(s.at)}. What it did since then and isn't in a snapshot is lost.` })],
    }, () => ask("POST", `${of.path}/rollback`, { snapshot: s.id }))),
    action("Verify", "own", `diapause verify ${of.name} ${s.id}`, (b) => of.act(b, `Verify ${s.id}`, async () => {
      const v = await ask("POST", `${of.path}/verify`, { snapshot: s.id });
      put(said, `${v.entries} files, ${bytes(v.logical_bytes)}, all of it readable, in ${v.seconds.toFixed(1)} s`);
    })),
    !s.head && action("Delete", "own", away, asked(`Delete ${s.id}`, {
      title: `Delete snapshot ${s.id} of ${of.name}?`, line: away, ok: "Delete",
      about: [element("p", { textContent: `What only it has is gone then: ${bytes(s.stored_bytes)} were stored for it. The session and its other snapshots stay.` })],
    }, () => ask("DELETE", `${of.path}/snapshots/${encodeURIComponent(s.id)}`)), "danger"),
    said,
  ].filter(Boolean);
}

function fork(s, of) {
  const to = element("input", { value: `${of.name}-${s.id}`, "aria-label": `Name of the fork from ${s.id}`, size: 16, spellcheck: false, autocomplete: "off", required: true, pattern: "([A-Za-z0-9_\\-]{1,64}/)?[A-Za-z0-9_\\-]{1,64}" });
  const b = element("button", { textContent: "Fork from it" });
  of.may(b, "own");
  const line = element("div", {});
  to.oninput = () => line.replaceChildren(command(`diapause fork --snapshot ${s.id} ${of.name} ${to.value}`));
  to.oninput();
  const form = element("form", { className: "action" }, b, to, line);
  form.onsubmit = (e) => {
    e.preventDefault();
    const name = to.value.includes("/") ? to.value : of.tenant + to.value;
    of.act(b, `Fork ${s.id} as ${name}`, () => ask("POST", `${of.path}/fork`, { to: name, snapshot: s.id }));
  };
  return form;
}

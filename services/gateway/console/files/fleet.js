// The page of the fleet: hosts, what is ordered about them, and the store.
import { ask } from "./api.js";
import { command, element, fill } from "./dom.js";
import { bytes, idle, moment, span } from "./format.js";
import { Page, table } from "./admin.js";
import { sure } from "./confirm.js";

const every = 5_000;

export function showFleet(main, live) {
  const page = new Page(main, "Fleet", "Hosts, how full they are, and what the store holds.");
  const hosts = page.section("Hosts");
  const store = page.section("Store");
  const read = () => page.reads(hosts, async (signal) => (await ask("GET", "/hosts", undefined, signal)).map((h) => ({ ...h, seen: undefined })), (all) => (all.length ? all.map((h) => hostOf(page, live, h, read)) : none()));
  page.every(every, read);
  page.reads(store, async (signal) => {
    try {
      return await ask("GET", "/store/stats", undefined, signal);
    } catch (e) {
      if (signal.aborted || [0, 401, 403, 429].includes(e.status)) throw e;
      return { unread: e.text ?? e.message };
    }
  }, storeOf);
  return page;
}

function none() {
  return [element("p", { textContent: "No host has announced itself yet. Start one:" }), command("diapause up")];
}

function meter(text, part, of) {
  const shown = element("span", { textContent: text });
  return of > 0 ? [shown, element("meter", { min: 0, max: of, value: part, "aria-label": text })] : [shown];
}

function facts(h) {
  const load = h.load;
  const used = load && load.memory_bytes - load.available_bytes;
  const drivers = (h.fingerprints ?? []).map((f) => [f.driver, f.engine && `(${f.engine})`, f.keeps && `keeps ${f.keeps}`].filter(Boolean).join(" "));
  const kernel = h.fingerprints?.[0];
  return [
    ["Room", meter(h.slots ? `${h.running} of ${h.slots} slots` : `${h.running} running, no limit`, h.running, h.slots)],
    h.slots_by && ["Limit by", h.slots_by],
    load && ["Memory", meter(`${bytes(used)} of ${bytes(load.memory_bytes)}`, used, load.memory_bytes)],
    load && ["Pressure", meter(`${Math.round(load.pressure * 100)} %`, load.pressure, 1)],
    load?.disk_bytes > 0 && ["Free disk", meter(`${bytes(load.disk_free_bytes)} of ${bytes(load.disk_bytes)}`, load.disk_free_bytes, load.disk_bytes)],
    ["Paused there", String(h.suspended)],
    ["Version", h.version ?? "unknown"],
    ["Drivers", drivers.join(", ") || "none"],
    kernel && ["Kernel", `${kernel.kernel} ${kernel.arch}`],
    ...Object.entries(h.lacks ?? {}).map(([name, why]) => [`No ${name}`, why]),
    ["Labels", Object.entries(h.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(" ") || "none"],
  ].filter(Boolean);
}

function standing(h) {
  if (!h.alive) return ["failed", h.gone_since ? `gone since ${moment(h.gone_since)}` : "gone"];
  if (h.order?.draining) return ["changing", h.empty ? "drained" : "draining"];
  return h.order?.cordoned ? ["paused", "cordoned"] : ["running", "takes sessions"];
}

function hostOf(page, live, h, again) {
  const [kind, word] = standing(h);
  const is = element("p", { className: "is" }, element("span", { className: "dot", "aria-hidden": "true" }), element("span", { className: "state-word", textContent: word }),
    h.order && element("span", { className: "why", textContent: `by ${h.order.by}, since ${moment(h.order.since)}` }));
  is.dataset.kind = kind;
  const ordered = h.order?.cordoned || h.order?.draining;
  const act = (text, verb, line, about, body) => {
    const b = element("button", { type: "button", textContent: text, "aria-label": `${text} ${h.host}` });
    b.onclick = () => order(page, { h, text, verb, line, about, body: body?.(), again });
    return b;
  };
  return element("section", { className: "host", "aria-label": `Host ${h.host}` }, element("h3", { textContent: h.host }), is,
    element("dl", {}, facts(h).map(([k, v]) => element("div", {}, element("dt", { textContent: k }), element("dd", {}, v)))),
    element("p", { className: "choice" },
      ordered ? act("Uncordon", "uncordon", "uncordon", "It takes sessions again, and a drain ends.") : act("Cordon", "cordon", "cordon", "It takes no new sessions, resumes or moves. What runs there runs on."), " ",
      h.alive && !h.order?.draining && act("Drain", "drain", "drain", "It takes no sessions any more. Those that aren't in use are suspended, or moved if they are never to be suspended. Those in use are waited for.", () => running(live, h))));
}

// running shows what a drain is about.
function running(live, h) {
  const all = [...live.sessions.values()].filter((s) => s.host === h.host && !["suspended", "exited", "deleted", "failed"].includes(s.state));
  if (all.length === 0) return { force: null, node: element("p", { textContent: "Nothing runs there now." }) };
  const force = element("input", { type: "checkbox" });
  return { force, node: element("div", {}, table("Sessions that run there", ["Session", "State", "Idle for"], all.slice(0, 100).map((s) => [s.name, s.state, s.state === "running" ? span(idle(s)) : ""])),
    all.length > 100 && element("p", { className: "why", textContent: `and ${all.length - 100} more` }),
    element("label", {}, force, " Move or suspend what is in use, too")) };
}

async function order(page, { h, text, verb, line, about, body, again }) {
  const shown = element("p", {}, command(`diapause host ${line} ${h.host}`));
  if (body?.force) body.force.onchange = () => shown.replaceChildren(command(`diapause host ${line} ${h.host}${body.force.checked ? " --force" : ""}`));
  if (!await sure({ title: `${text} ${h.host}?`, about: [element("p", { textContent: about }), body?.node, shown], ok: text, danger: verb === "drain" })) return;
  await page.act(`${text} ${h.host}`, () => ask("POST", `/hosts/${encodeURIComponent(h.host)}/${verb}${body?.force?.checked ? "?force=true" : ""}`));
  again();
}

function storeOf(s) {
  if (s.unread) {
    return [element("div", { className: "banner failure" }, element("p", {}, element("b", { textContent: "The store can't be read." }), ` ${s.unread}.`), element("p", { textContent: "Sessions run on, and none is suspended or resumed until it answers." })), element("p", {}, command("diapause doctor"))];
  }
  const unused = s.sessions.reduce((n, one) => n + one.unused_bytes, 0);
  const most = [...s.sessions].sort((a, b) => b.stored_bytes - a.stored_bytes).slice(0, 20);
  const { health } = s;
  const sums = element("dl", {}, [["Reachable", "yes"], ["Stored", bytes(s.stored_bytes)], ["Unused", `${bytes(unused)}, goes after a wait`], ["Sessions", String(s.sessions.length)],
    health.total_bytes > 0 && ["Free room", `${bytes(health.free_bytes)} of ${bytes(health.total_bytes)}`],
    ["Last error", health.last_error ? `${moment(health.last_error_at)}: ${health.last_error}` : "none since it was started"]].filter(Boolean)
    .map(([k, v]) => element("div", {}, element("dt", { textContent: k }), element("dd", { textContent: v }))));
  const rest = s.sessions.length === 0
    ? element("p", { textContent: "It has no images yet: the first is made when a session is suspended." })
    : table("What takes most", ["Session", "Snapshots", "Contents", "Stored", "Unused"], most.map((o) => [o.name || `lineage ${o.lineage}, of no session`, String(o.snapshots), bytes(o.logical_bytes), bytes(o.stored_bytes), bytes(o.unused_bytes)]));
  return [sums, rest, element("p", {}, command("diapause store stats"), " ", command("diapause store check"), " ", command("diapause store prune --dry-run"))];
}

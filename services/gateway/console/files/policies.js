// The pages of policies: which there are, and one of them, to be changed and tried.
import { ask, send } from "./api.js";
import { command, element, fill, put } from "./dom.js";
import { lasting, moment, said } from "./format.js";
import { Page, bars, field, table } from "./admin.js";
import { livesOf } from "./lives.js";

const inPath = (scope) => encodeURIComponent(scope.startsWith("session:") ? scope.replace("/", ".") : scope);

export function showPolicies(main, live, { of }) {
  return of ? new Policy(main, of).page : list(main);
}

function list(main) {
  const page = new Page(main, "Policies", "What sessions are held to: the policy of a session lies above that of its class, above that of all, above what is built in.");
  const body = page.section("Policies");
  page.reads(body, (signal) => ask("GET", "/policies", undefined, signal), (all) => [
    table("Policies", ["Of", "Set there", "Changed"], all.map((p) => [
      p.scope === "defaults" ? p.scope : element("a", { href: `#/policies/${encodeURIComponent(p.scope)}`, textContent: p.scope }),
      p.defaults ? p.defaults.map((d) => `${d.scope}: ${said(d.policy)} (${d.from})`).join("; ") : Object.keys(p.policy).length ? said(p.policy) : "nothing: as the one below it",
      p.change ? `${moment(p.change.at)} by ${p.change.by}${p.change.reason ? `: ${p.change.reason}` : ""}` : "never"])),
    element("p", {}, command("diapause policy get"))]);
  const to = element("input", { placeholder: "session:work", autocomplete: "off", spellcheck: false, required: true, pattern: "(session|tenant):.+" });
  const form = element("form", { className: "filters" }, field("Of a session or a tenant", to), element("button", { textContent: "Open" }));
  form.onsubmit = (e) => {
    e.preventDefault();
    location.hash = `#/policies/${encodeURIComponent(to.value.trim())}`;
  };
  page.root.append(form);
  return page;
}

// Policy is the page of one.
class Policy {
  #version = 0; // that is shown, and replaced

  constructor(main, scope) {
    this.scope = scope;
    this.page = new Page(main, `Policy of ${scope}`);
    this.page.root.prepend(element("p", {}, element("a", { href: "#/policies", textContent: "‹ Policies" })));
    this.text = element("textarea", { className: "edit", spellcheck: false, autocomplete: "off", "aria-label": "What is set, as JSON" });
    this.reason = element("input", { autocomplete: "off", maxLength: 200 });
    this.since = element("select", {}, ["1h", "24h", "7d", "14d"].map((d) => element("option", { value: d, textContent: d, selected: d === "24h" })));
    const button = (text, act) => {
      const b = element("button", { type: "button", textContent: text });
      b.onclick = () => act.call(this);
      return b;
    };
    this.line = element("p");
    this.tried = element("div", { className: "body", role: "status" });
    this.body = this.page.section("Holds");
    this.page.root.append(element("section", { className: "part", "aria-label": "Change it" }, element("h2", { textContent: "Change it" }),
      element("p", { className: "why", textContent: "All that is set here, as JSON: {\"grace\": \"10m\"}. What is left out is as the policy below it says." }), this.text,
      element("p", { className: "choice" }, button("Test", this.test), button("Simulate", this.simulate), field("of the last", this.since)),
      element("p", { className: "choice" }, field("Why", this.reason), button("Save", this.save)), this.line), this.tried);
    this.text.oninput = () => this.#show();
    this.read(true);
  }

  async read(fills) {
    await this.page.reads(this.body, (signal) => ask("GET", `/policies/${inPath(this.scope)}`, undefined, signal), (p) => {
      this.#version = p.version;
      if (fills) this.text.value = JSON.stringify(p.policy, (_, v) => lasting(v), 2);
      return [table("Holds", ["Part", "Holds", "From"], Object.entries(p.effective ?? {}).map(([key, value]) => [key, said(value), p.origins?.[key]])),
        element("p", { className: "why", textContent: p.change ? `Version ${p.version}, ${moment(p.change.at)} by ${p.change.by}${p.change.reason ? `: ${p.change.reason}` : ""}` : "Nothing was ever set here." }), element("p", {}, command(`diapause policy get ${this.scope}`))];
    });
    this.#show();
  }

  #show() {
    fill(this.line, [this.scope, this.#version], () => command(`diapause policy set ${this.scope} --file policy.json --version ${this.#version}`));
  }

  // policy reads what was typed.
  #policy() {
    try {
      const p = JSON.parse(this.text.value || "{}");
      if (p && typeof p === "object" && !Array.isArray(p)) return p;
    } catch { // said below
    }
    throw new Error("what is typed is no JSON object, such as {\"grace\": \"10m\"}");
  }

  async test() {
    await this.page.act("Test", async () => {
      const t = await ask("POST", `/policies/${inPath(this.scope)}/test`, { policy: this.#policy() }, this.page.signal);
      this.tried.replaceChildren(element("h2", { textContent: "What it would do now" }), element("p", { textContent: t.tested === 0 ? "There is no session that it is about yet." : `Of ${t.tested} sessions ${t.changed} would be otherwise; ${t.suspends} would be suspended at once.` }), ...notes(t));
      if (t.sessions.length) this.tried.append(table("Sessions", ["Session", "State", "Now", "Then"], t.sessions.map((v) => [v.name, v.state, v.now, v.changed ? v.would : "the same"])));
    });
  }

  async simulate() {
    await this.page.act("Simulate", async () => {
      const s = await ask("POST", `/policies/${inPath(this.scope)}/simulate`, { policy: this.#policy(), since: this.since.value, lives: true }, this.page.signal);
      const n = (x) => Math.round(x * 100) / 100;
      const rows = [["Would have slept", n(s.now.asleep_hours), n(s.would.asleep_hours), "h"], ["Memory saved", n(s.now.saved_gib_hours), n(s.would.saved_gib_hours), "GiB h"], ["Suspends", s.now.suspends, s.would.suspends, ""],
        ["Resumes", s.now.resumes, s.would.resumes, ""], ["Woken within 2 min", s.now.wrong, s.would.wrong, ""], ["Waits for a resume", n(s.now.waits_seconds), n(s.would.waits_seconds), "s"]];
      const title = `${s.sessions} sessions from ${moment(s.from)} to ${moment(s.to)}`;
      this.tried.replaceChildren(element("h2", { textContent: "What it would have done" }), element("p", { textContent: s.sessions === 0 ? "No session was there in that time: run some, and try it again later." : `${title}${s.unknown ? `; of ${s.unknown} nothing is known, they count as in use` : ""}.` }),
        element("p", {}, element("span", { className: "key now", "aria-hidden": "true" }), "gray: the policy that holds, ", element("span", { className: "key would", "aria-hidden": "true" }), "blue: this one"),
        bars(`Simulation, ${title}`, rows), table("Simulation in numbers", ["", "Holds", "This one"], rows.map(([what, a, b, unit]) => [what, `${a} ${unit}`, `${b} ${unit}`])), ...livesOf(s).filter(Boolean), ...notes(s),
        element("p", {}, command(`diapause policy simulate ${this.scope} --file policy.json --since ${this.since.value}`)));
    });
  }

  async save() {
    const done = await this.page.act("Save", async () => {
      try {
        await send("PUT", `/policies/${inPath(this.scope)}`, { body: { policy: this.#policy(), reason: this.reason.value || undefined }, headers: { "If-Match": `"${this.#version}"` } });
      } catch (e) {
        if (e.status === 412) throw new Error("it was changed meanwhile: what is in force is shown above, save again to replace it");
        throw e;
      } finally {
        await this.read(false);
      }
    });
    if (done) put(this.tried, "");
  }
}

const notes = (x) => (x.notes?.length ? [element("ul", {}, x.notes.map((n) => element("li", { textContent: n })))] : []);

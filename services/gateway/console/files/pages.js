// The pages that aren't about one session: which there are, and who may see them. The API is who refuses.
import { element, fill } from "./dom.js";

const looks = ["reader", "client", "owner", "operator"];

const all = [
  { key: "", name: "Sessions", roles: looks },
  { key: "fleet", name: "Fleet", roles: ["operator"], load: async () => (await import("./fleet.js")).showFleet },
  { key: "usage", name: "Usage", roles: looks, load: async () => (await import("./usage.js")).showUsage },
  { key: "policies", name: "Policies", roles: ["operator"], load: async () => (await import("./policies.js")).showPolicies },
  { key: "access", name: "Keys and tokens", roles: ["operator"], load: async () => (await import("./access.js")).showAccess },
  { key: "audit", name: "Audit", roles: looks, load: async () => (await import("./audit.js")).showAudit },
  { key: "connect", name: "Connect", roles: ["operator"], load: async () => (await import("./connect.js")).showConnect },
];

// pagesFor are those that a login may see; a role that isn't known may see all.
export const pagesFor = (me) => all.filter((p) => !me?.role || p.roles.includes(me.role));

export const pageOf = (key) => all.find((p) => p.key === key && p.load);

// navigation shows the links in the header.
export function navigation(nav, me, at) {
  nav.hidden = !me;
  if (!me) return;
  fill(nav, [me.role, at], () => pagesFor(me).map((p) => element("a", { href: `#/${p.key}`, textContent: p.name, "aria-current": p.key === at ? "page" : undefined })));
}

// Has a session live with a client whose types openapi-typescript makes of the OpenAPI document:
// npx openapi-typescript openapi.json -o api.ts
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const { DIAPAUSE_HTTP: address = "", DIAPAUSE_TOKEN: token = "" } = process.env;
const api = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });
const path = { session: "acme.writer" };

let uid: string | undefined;
for (let times = 0; times < 2; times++) {
  // Sent again, it answers with the same session.
  const made = await api.POST("/api/v1/sessions", {
    params: { header: { "Idempotency-Key": "a key" } },
    body: { name: "acme/writer", idle: "never", spec: { command: ["sh", "-c", "while sleep 1; do :; done"] } },
  });
  assert.equal(made.data?.state, "running", JSON.stringify(made.error));
  assert.equal(uid ?? made.data.uid, made.data.uid);
  uid = made.data.uid;
}

const page = await api.GET("/api/v1/sessions", { params: { query: { state: ["running"], limit: 1 } } });
assert.equal(page.data?.sessions?.length, 1, JSON.stringify(page.error));

const asleep = await api.POST("/api/v1/sessions/{session}/suspend", { params: { path }, body: {} });
assert.equal(asleep.data?.state, "suspended", JSON.stringify(asleep.error));
assert.ok(asleep.data.pausedAt && asleep.data.capabilities.memory);

const awake = await api.POST("/api/v1/sessions/{session}/ensure", { params: { path }, body: {} });
assert.deepEqual([awake.data?.state, awake.data?.uid], ["running", uid], JSON.stringify(awake.error));

// A policy is replaced, and not where another was faster.
const scope = { scope: "session:acme.writer" };
const was = await api.GET("/api/v1/policies/{scope}", { params: { path: scope } });
const tag = was.response.headers.get("ETag") ?? "";
for (const want of [200, 412]) {
  const set = await api.PUT("/api/v1/policies/{scope}", {
    params: { path: scope, header: { "If-Match": tag } },
    body: { policy: { grace: "10m" } },
  });
  assert.equal(set.response.status, want, JSON.stringify(set.error));
}

// The events are read until the session's suspend.
const events = await api.GET("/api/v1/events", { params: { query: { after: 0, tenant: "acme", session: "writer" } }, parseAs: "stream" });
assert.ok(events.data);
let text = "";
for await (const part of events.data.pipeThrough(new TextDecoderStream())) {
  text += part;
  if (text.includes('"suspended"')) break;
}
assert.match(text, /"suspended"/);

await api.DELETE("/api/v1/sessions/{session}", { params: { path } });
const missing = await api.GET("/api/v1/sessions/{session}", { params: { path } });
assert.deepEqual([missing.error?.status, missing.error?.code], [404, "no_session"]);
assert.match(missing.error?.detail ?? "", /deleted/);
console.log("ok");

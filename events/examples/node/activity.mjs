// Says from Node.js that a session is in use, with the official NATS client and
// nothing of Diapause:
//
//   npm ci && NATS_URL=nats://127.0.0.1:4222 node activity.mjs work
//
// Inside of a session it needs no address. The session is busy until standard input ends.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, headers } from "@nats-io/transport-node";

const session = process.argv[2] ?? "work";
const tenant = "default";

// The server: NATS_URL, inside of a session the one for its activity, or this machine's.
function nearest() {
  let own;
  try {
    own = JSON.parse(readFileSync("/run/diapause/generation", "utf8")).url;
  } catch {
    // not inside of a session
  }
  return process.env.NATS_URL || own || "nats://127.0.0.1:4222";
}

const nc = await connect({
  servers: nearest(),
  maxReconnectAttempts: -1,
});
const subject = (kind) => `diapause.v1.activity.${tenant}.${session}.${kind}`;

// A person typed: the subject is enough.
const input = () => nc.publish(subject("input"));

// The same as a CloudEvent, in its binary form.
function inputAsCloudEvent() {
  const h = headers();
  h.set("ce-specversion", "1.0");
  h.set("ce-id", randomUUID());
  h.set("ce-source", "/examples/node");
  h.set("ce-type", "com.example.keystroke");
  nc.publish(subject("input"), undefined, { headers: h });
}

// Keeps the session awake while work is under way, and for ttl seconds more if this
// program is killed.
async function busy(operation, ttl, work) {
  const say = (what) => nc.publish(subject(`busy.${operation}`), JSON.stringify(what));
  const renew = () => say({ ttl, reason: "an agent's turn", by: "examples/node" });
  renew();
  const timer = setInterval(renew, (ttl * 1000) / 3);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    say({ released: true });
  }
}

// An agent's turn: busy for as long as there is something on standard input, each piece
// of which counts as typed.
await busy("turn", 3, async () => {
  inputAsCloudEvent();
  for await (const _ of process.stdin) input();
});
await nc.drain();
console.log("done");

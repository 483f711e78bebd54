// Tells Diapause what an agent is doing, with the official NATS client and nothing of
// Diapause:
//
//   npm ci && NATS_URL=nats://127.0.0.1:4222 node agent.mjs work
//
// Inside of a session it needs no address. The session must run, and its policy want the
// checkpoints that are to be made of it:
//
//   diapause policy set session:work checkpoints=run_boundaries,after:edit
//
// Callback is what to hand to your agent. It never makes the agent wait and never throws:
// without a server the agent does what it does. The program below it is such an agent,
// each of whose actions is a line of standard input.
import { randomUUID } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connect } from "@nats-io/transport-node";

export class Callback {
  #prefix;
  #servers;
  #by;
  #connection; // a promise, while there is a server
  #runID = "";

  constructor({ servers, session, tenant = "default", by = "agent.mjs" }) {
    this.#prefix = `diapause.v1.activity.${tenant}.${session}.agent.`;
    this.#servers = servers;
    this.#by = by;
  }

  // A run of the agent: run_start, and run_end however it goes.
  async run(work, { reason, runID = randomUUID() } = {}) {
    this.#runID = runID;
    this.say("run_start", { reason });
    try {
      return await work();
    } finally {
      this.say("run_end", { reason });
    }
  }

  // One action: before it, and after it unless it failed.
  async action(name, work, { reason } = {}) {
    this.say("before", { action: name, reason });
    const result = await work();
    this.say("after", { action: name, reason });
    return result;
  }

  // Publishes a trigger: run_start, run_end, before, after or manual. What is said without a
  // server is lost: the moment that it was for is over when there is one.
  say(trigger, what) {
    const payload = JSON.stringify({ run_id: this.#runID, by: this.#by, ...what });
    this.#connection ??= connect({ servers: this.#servers, maxReconnectAttempts: -1, timeout: 2000 });
    this.#connection.then((nc) => nc.publish(this.#prefix + trigger, payload)).catch((err) => {
      console.error("agent.mjs: not said to Diapause:", err.message);
      this.#connection = undefined; // the next one tries again
    });
  }

  // Has what was said go out, if that can be done in time.
  async close(ms = 5000) {
    try {
      const nc = await this.#connection;
      await Promise.race([nc?.flush(), pause(ms, undefined, { ref: false })]);
      await nc?.close();
    } catch {
      // there is no server: that was said
    }
  }
}

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

async function main() {
  const callback = new Callback({
    servers: nearest(),
    session: process.argv[2] ?? "work",
  });
  await callback.run(async () => {
    for await (const line of createInterface({ input: process.stdin })) {
      await callback.action(line, async () => console.log("does", line));
    }
  }, { reason: "an agent of the examples", runID: process.env.RUN_ID });
  await callback.close();
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await main();

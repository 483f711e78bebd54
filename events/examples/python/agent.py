#!/usr/bin/env python3
"""Tells Diapause what an agent is doing, with Python's own library alone:

    NATS_URL=nats://127.0.0.1:4222 python3 agent.py work

Inside of a session it needs no address. The session must run, and its policy want the
checkpoints that are to be made of it:

    diapause policy set session:work checkpoints=run_boundaries,before:deploy

Callback is what to hand to your agent. It never makes the agent wait and never raises once
it is made: without a server the agent does what it does. The program below it is such an
agent, each of whose actions is a line of standard input.
"""

import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time
import urllib.parse
import uuid

FRESH = 30  # seconds: what is older isn't worth a checkpoint any more
PATIENCE = 5  # seconds, for one answer of the server


def nearest():
    """The server: NATS_URL, inside of a session the one for its activity, or this machine's."""
    try:
        with open("/run/diapause/generation", encoding="utf-8") as f:
            own = json.load(f).get("url")
    except (OSError, ValueError):
        own = None
    return os.environ.get("NATS_URL") or own or "nats://127.0.0.1:4222"


class Callback:
    """Says what an agent does in a session: before it acts, after it, and of its runs."""

    def __init__(self, url, session, tenant="default", by="agent.py"):
        self.address = urllib.parse.urlsplit(url)
        if self.address.scheme != "nats" or not self.address.hostname:
            raise ValueError(f"NATS server {url!r}: want nats://HOST:PORT")
        self.prefix = f"diapause.v1.activity.{tenant}.{session}.agent."
        self.by = by
        self.run_id = ""
        self.closing = threading.Event()
        self.queue = queue.Queue(maxsize=1000)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def run(self, description="", run_id=""):
        """A run of the agent: run_start, and run_end however it goes."""
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self.say("run_start", reason=description)
        try:
            yield self.run_id
        finally:
            self.say("run_end", reason=description)

    @contextlib.contextmanager
    def action(self, name, description=""):
        """One action: before it, and after it unless it failed."""
        self.say("before", action=name, reason=description)
        yield
        self.say("after", action=name, reason=description)

    def say(self, trigger, **what):
        """Publishes a trigger: run_start, run_end, before, after or manual."""
        what = {k: v for k, v in what.items() if v}
        payload = json.dumps({"run_id": self.run_id, "by": self.by, **what}).encode()
        with contextlib.suppress(queue.Full):  # an agent quicker than the network
            self.queue.put_nowait((time.monotonic(), self.prefix + trigger, payload))

    def close(self, timeout=PATIENCE):
        """Has what was said go out, if that can be done in time."""
        self.closing.set()
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(None)
        self.thread.join(timeout)

    def _serve(self):
        server = None
        while (said := self.queue.get()) is not None:
            at, subject, payload = said
            while time.monotonic() - at < FRESH:
                try:
                    server = server or self._connect()
                    server.write(b"PUB %s %d\r\n%s\r\nPING\r\n" % (subject.encode(), len(payload), payload))
                    self._answered(server)
                    break
                except (OSError, ValueError) as e:
                    server = None
                    if self.closing.wait(0.2):
                        print(f"agent.py: not said to Diapause: {e}", file=sys.stderr)
                        break

    def _connect(self):
        """Connects to the server, whose first line is about itself."""
        at = (self.address.hostname, self.address.port or 4222)
        with socket.create_connection(at, timeout=PATIENCE) as s:  # the file keeps it open
            server = s.makefile("rwb")
        server.readline()
        server.write(b'CONNECT {"verbose":false,"pedantic":false,"name":"agent.py"}\r\n')
        return server

    def _answered(self, server):
        """Waits until the server has read all that it was sent."""
        server.flush()
        while line := server.readline():
            if line.startswith(b"PONG"):
                return
            if line.startswith(b"PING"):
                server.write(b"PONG\r\n")
                server.flush()
            elif line.startswith(b"-ERR"):
                print(f"agent.py: the server refuses: {line.decode().strip()}", file=sys.stderr)
        raise ConnectionError("the server closed the connection")


def main():
    session = sys.argv[1] if len(sys.argv) > 1 else "work"
    callback = Callback(nearest(), session)
    with callback.run("an agent of the examples", run_id=os.environ.get("RUN_ID", "")):
        for line in sys.stdin:
            with callback.action(line.strip()):
                print("does", line.strip(), flush=True)
    callback.close()


if __name__ == "__main__":
    main()

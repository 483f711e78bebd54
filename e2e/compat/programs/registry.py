# An npm registry that serves the packages of a lock file out of npm's own cache. It
# serves the first half of an install at once, and holds the others back until
# /tmp/release is there; /tmp/held counts those that wait.
import base64, http.server, json, os, sys, threading, time, urllib.parse

lock, cache = sys.argv[1:]
here = "http://127.0.0.1:4873/"
files, about = {}, {}
for place, package in json.load(open(lock))["packages"].items():
    if "integrity" in package:
        name, version = place.rpartition("node_modules/")[2], package["version"]
        kind, _, digest = package["integrity"].partition("-")
        digest = base64.b64decode(digest).hex()
        tarball = "%s/-/%s-%s.tgz" % (name, name.rpartition("/")[2], version)
        files[tarball] = "%s/_cacache/content-v2/%s/%s/%s/%s" % (cache, kind, digest[:2], digest[2:4], digest[4:])
        versions = about.setdefault(name, {"name": name, "dist-tags": {"latest": version}, "versions": {}})["versions"]
        versions[version] = {"name": name, "version": version, "dist": {"tarball": here + tarball, "integrity": package["integrity"]}}
mutex = threading.Lock()
served, held = set(), 0


def note_held(more):
    global held
    held += more
    with open("/tmp/held.new", "w") as f:
        f.write(str(held))
    os.rename("/tmp/held.new", "/tmp/held")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.unquote(self.path.lstrip("/"))
        if path in about:
            return self.answer(json.dumps(about[path]).encode())
        with mutex:
            served.add(path)
            wait = len(served) > len(files) // 2
            if wait:
                note_held(1)
        while wait and not os.path.exists("/tmp/release"):
            time.sleep(0.05)
        with mutex:
            if wait:
                note_held(-1)
            if wait and held == 0 and len(served) == len(files):
                served.clear()
        self.answer(open(files[path], "rb").read() if path in files else b"")

    def answer(self, body):
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 4873), Handler).serve_forever()

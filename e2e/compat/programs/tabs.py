# Serves a page of which several tabs are open. Each tab has a WebSocket, over which it is asked for its state and told the number
# that it shall write. What it answers, and how often it has opened a WebSocket, is kept in a file.
import base64, hashlib, http.server, json, os, struct, sys, threading, time

page = open(sys.argv[1], "rb").read()
opened, lock = {}, threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, tab = self.path.partition("?")
        if path == "/socket":
            return self.socket(tab)
        body = page if path == "/" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def socket(self, tab):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        with lock:
            opened[tab] = opened.get(tab, 0) + 1
        while True:
            try:
                n = open("/tmp/write", "rb").read().strip()
            except FileNotFoundError:
                n = b"0"
            self.wfile.write(struct.pack("!BB", 0x81, len(n)) + n)
            told = json.loads(self.message())
            told["opened"] = opened[tab]
            with open(f"/tmp/told.{tab}.new", "w") as f:
                json.dump(told, f)
            os.rename(f"/tmp/told.{tab}.new", f"/tmp/told.{tab}")
            time.sleep(0.2)

    def message(self):
        _, size = self.rfile.read(2)
        size &= 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.rfile.read(2))
        mask = self.rfile.read(4)
        return bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()

# Serves the page, keeps what it tells in a file, and answers with the number that it
# shall write.
import http.server, os, sys

page = sys.argv[1].encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(page if self.path == "/" else b"", "text/html")

    def do_POST(self):
        told = self.rfile.read(int(self.headers["Content-Length"]))
        with open("/tmp/told.new", "wb") as f:
            f.write(told)
        os.rename("/tmp/told.new", "/tmp/told")
        try:
            write = open("/tmp/write", "rb").read()
        except FileNotFoundError:
            write = b"0"
        self.answer(write, "text/plain")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()

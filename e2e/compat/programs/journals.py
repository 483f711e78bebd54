# Keeps a SQLite database open in each journal mode, writes to all of them when a
# client of a socket asks, and tells how that went.
import json, socket, sqlite3, subprocess

MODES = ["delete", "truncate", "persist", "wal"]
open_ = {}
for mode in MODES:
    db = sqlite3.connect("/tmp/%s.db" % mode, isolation_level=None)
    assert db.execute("PRAGMA journal_mode=" + mode).fetchone() == (mode,)
    db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, text)")
    open_[mode] = db


def write(mode, n):
    try:
        db = open_[mode]
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO t VALUES (?, ?)", [(n * 100 + i, "x" * 500) for i in range(100)])
        db.execute("COMMIT")
        rows = db.execute("SELECT count(*) FROM t").fetchone()[0]
        check = db.execute("PRAGMA integrity_check").fetchone()[0]
        # Another process sees the same, and can write itself.
        other = subprocess.run(["sqlite3", "/tmp/%s.db" % mode,
                                "PRAGMA busy_timeout=5000; UPDATE t SET text = 'seen' WHERE n = %d; SELECT count(*) FROM t; PRAGMA integrity_check" % (n * 100)],
                               capture_output=True, text=True)
        return [rows, check, other.stdout.split(), other.stderr]
    except sqlite3.Error as e:
        return [str(e)]


server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/state.sock")
server.listen()
asked = 0
while True:
    client, _ = server.accept()
    with client:
        told = {mode: write(mode, asked) for mode in MODES}
        asked += 1
        client.sendall(json.dumps(told).encode())

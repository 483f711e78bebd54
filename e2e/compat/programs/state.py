# Keeps state of every usual kind and tells it to clients of a socket.
import hashlib, itertools, json, os, socket, tempfile, threading, time

heap = {i: ("value %d" % i) * 3 for i in range(200_000)}
words = itertools.accumulate(itertools.count(1))  # a generator in mid-flight
journal = open("/tmp/journal", "w+")
nameless = tempfile.TemporaryFile(dir="/tmp")  # open, and unlinked
nameless.write(b"kept without a name" * 1000)
nameless.flush()
counts = [0] * 4


def work(i):
    while True:
        counts[i] += 1
        time.sleep(0.002)


for i in range(len(counts)):
    threading.Thread(target=work, args=(i,), daemon=True).start()


def state():
    journal.write("asked %d\n" % next(words))
    journal.flush()
    nameless.seek(0)
    return {
        "pid": os.getpid(),
        "heap": hashlib.sha256(repr(sorted(heap.items())).encode()).hexdigest(),
        "identity": id(heap),
        "nameless": hashlib.sha256(nameless.read()).hexdigest(),
        "threads": threading.active_count(),
        "counts": list(counts),
        "offset": journal.tell(),
        "journal": open("/tmp/journal").read(),
    }


server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/state.sock")
server.listen()
while True:
    client, _ = server.accept()
    with client:
        client.sendall(json.dumps(state()).encode())

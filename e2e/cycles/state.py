# Holds memory and files of several kinds, and tells clients of a socket what they are.
import hashlib, json, os, socket, threading

memory = bytearray(b"".join(hashlib.sha256(b"page %d" % i).digest() * 128 for i in range(2048)))  # 8 MiB

os.makedirs("/srv/kept/old")
for i in range(20):
    with open("/srv/kept/file-%d" % i, "w") as f:
        f.write("content %d\n" % i * 100)
os.link("/srv/kept/file-0", "/srv/kept/linked")
os.symlink("file-1", "/srv/kept/symbolic")
os.rename("/srv/kept/file-2", "/srv/kept/old/renamed")
os.rename("/srv/kept/old", "/srv/kept/moved")
os.mkfifo("/srv/kept/fifo")
with open("/srv/kept/sparse", "w") as f:
    f.truncate(1 << 30)
    f.write("begin")
os.chmod("/etc/passwd", 0o600)  # copied up from the system's
opened = open("/srv/kept/file-3", "a+")
nameless = open("/srv/kept/file-4", "a+")
os.unlink("/srv/kept/file-4")


def look(stat, content):
    return [stat.st_ino, stat.st_nlink, oct(stat.st_mode), stat.st_size, hashlib.sha256(content).hexdigest()[:16]]


def files():
    found = {"/etc/passwd": look(os.stat("/etc/passwd"), open("/etc/passwd", "rb").read())}
    for directory, _, names in os.walk("/srv/kept"):
        found[directory] = os.stat(directory).st_ino
        for name in names:
            path = os.path.join(directory, name)
            plain = name not in ("fifo", "sparse", "symbolic")
            found[path] = look(os.lstat(path), open(path, "rb").read() if plain else b"")
    for name, f in [("opened", opened), ("nameless", nameless)]:
        f.seek(0)
        found[name] = look(os.fstat(f.fileno()), f.read().encode())
    found["nameless"][0] = 0  # a file without a name is made again, with another number
    return found


def state():
    return {
        "pid": os.getpid(),
        "memory": hashlib.sha256(memory).hexdigest(),
        "at": id(memory),
        "files": files(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


server = socket.socket(socket.AF_UNIX)
server.bind("/run/state.sock")
server.listen()
while True:
    client, _ = server.accept()
    with client:
        client.sendall(json.dumps(state(), sort_keys=True).encode())

# Open files of terminals: each has its own flags, however it was opened. The session's own
# terminal, /dev/tty, and both ends of one that the session made itself.
#: terminal | flags of each open file of it, which no other shares | kept
import fcntl
flags = {
    "read": os.O_RDONLY,
    "write, append": os.O_WRONLY | os.O_APPEND,
    "both, non-blocking": os.O_RDWR | os.O_NONBLOCK,
    "both": os.O_RDWR,
}
files = {"stdin": 0}
own = os.ttyname(0)
master, slave = os.openpty()
files["master"], files["slave"] = master, slave
for name, path in (("own", own), ("/dev/tty", "/dev/tty"), ("inner", os.ttyname(slave))):
    for mode, f in flags.items():
        files["%s (%s)" % (name, mode)] = os.open(path, f | os.O_NOCTTY)
blocking, other = os.openpty()
files["master that blocks"], files["slave set later"] = blocking, other
for fd in (master, other):
    os.set_blocking(fd, False)
shared = os.dup(other)

def look():
    # O_LARGEFILE means nothing, and the kernel sets it or not by how a file is opened.
    return {name: oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~0o100000) for name, fd in files.items()}

before = look()

def apart(name):
    """Whether a change of one open file shows on no other."""
    was = look()
    fcntl.fcntl(files[name], fcntl.F_SETFL, int(was[name], 8) ^ os.O_NONBLOCK)
    now = look()
    fcntl.fcntl(files[name], fcntl.F_SETFL, int(was[name], 8))
    changed = sorted(k for k in now if now[k] != was[k])
    return changed == [name] or "with %s change %s" % (name, changed)

assert all(apart(n) is True for n in files), [apart(n) for n in files]
ready()
after = look()
ends = [apart(n) for n in files]
os.set_blocking(other, True)
answer(compare(before, after) + ends + [os.get_blocking(shared) or "the duplicate has other flags"])

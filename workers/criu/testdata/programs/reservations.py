# Mappings larger than the machine's memory, as Chromium, Go, the JVM and sanitizers reserve them:
# most of it is never written. A child has them by fork, and one of its own.
#: mapping | reserved: larger than memory, without access, read-only, MAP_NORESERVE | kept
import mmap
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
NONE, READ, WRITE, NORESERVE, TB, PAGE = 0, 1, 2, 0x4000, 1 << 40, 4096

def reserve(prot, flags):
    addr = libc.mmap(None, TB, prot, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags, -1, 0)
    if addr is None or addr == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap: " + os.strerror(ctypes.get_errno()))
    return addr

class Reserved:
    def __init__(self):
        self.none, self.read = reserve(NONE, 0), reserve(READ, 0)
        self.written, self.hidden = reserve(READ | WRITE, NORESERVE), reserve(NONE, NORESERVE)
        for at in (0, TB // 2, TB - PAGE):
            ctypes.memmove(self.written + at, b"%d" % at, len(b"%d" % at))
        call("mprotect", self.hidden + TB // 2, PAGE, READ | WRITE)
        ctypes.memmove(self.hidden + TB // 2, b"hidden", 6)
        call("mprotect", self.hidden + TB // 2, PAGE, NONE)

    def check(self):
        found = [same("byte %d" % at, ctypes.string_at(self.written + at), b"%d" % at) for at in (0, TB // 2, TB - PAGE)]
        found.append(same("read-only", ctypes.string_at(self.read + TB // 2, 1), b"\0"))
        call("mprotect", self.hidden + TB // 2, PAGE, READ)
        found.append(same("without access", ctypes.string_at(self.hidden + TB // 2, 6), b"hidden"))
        call("mprotect", self.none + TB - PAGE, PAGE, READ | WRITE)
        ctypes.memset(self.none + TB - PAGE, 1, PAGE)
        return found + [same("write", ctypes.string_at(self.none + TB - PAGE, 1), b"\1")]

ours = Reserved()
shared = mmap.mmap(-1, TB // 64, mmap.MAP_SHARED | NORESERVE)
shared[TB // 128] = 7
r, w = os.pipe()
ask_r, ask_w = os.pipe()
kid = os.fork()
if kid == 0:
    theirs = Reserved()
    ctypes.memset(ours.written + PAGE, 5, 1)
    os.write(w, b"r")
    os.read(ask_r, 1)
    bad = [f for f in ours.check() + theirs.check() + [same("own page", ctypes.string_at(ours.written + PAGE, 1), b"\5"), same("shared", shared[TB // 128], 7)] if f is not True]
    os.write(w, ("child: " + (", ".join(bad) or "ok")).encode())
    while True:
        signal.pause()
os.read(r, 1)
maps = lambda pid: [l.split()[:2] for l in open("/proc/%d/maps" % pid) if "[" not in l]
sizes = lambda pid: sorted(int(b, 16) - int(a, 16) for (x, _) in maps(pid) for a, b in [x.split("-")] if int(b, 16) - int(a, 16) > 1 << 33)
before = {p: sizes(p) for p in (os.getpid(), kid)}
ready()
after = {p: sizes(p) for p in (os.getpid(), kid)}
found = compare(before, after) + ours.check() + [same("parent's page", ctypes.string_at(ours.written + PAGE, 1), b"\0"), same("shared", shared[TB // 128], 7)]
os.write(ask_w, b"?")
answer(found + [same("child", os.read(r, 4096), b"child: ok")])

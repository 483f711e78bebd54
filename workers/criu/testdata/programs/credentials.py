# Capability sets, securebits and seccomp filters of children.
#: process | capabilities: inheritable, ambient, bounding, dropped; securebits | kept
#: process | seccomp filters, nested | kept
#: process | no_new_privs, with filters | warned: if that is for Landlock, its rules don't hold after a resume
def prctl(n, a=0, b=0, c=0, d=0): return libc.prctl(n, ctypes.c_ulong(a), ctypes.c_ulong(b), ctypes.c_ulong(c), ctypes.c_ulong(d))
kids = []
def child(fn):
    r, w = os.pipe(); r2, w2 = os.pipe()
    pid = os.fork()
    if pid == 0:
        fn()
        st = lambda: [l for l in open("/proc/self/status") if l.startswith(("Cap", "Uid", "Gid", "Groups", "NoNew", "Seccomp"))] + [prctl(27), prctl(7), prctl(3)]
        b = st(); os.write(w, b"x"); os.read(r2, 1); a = st()
        os.write(w, (b"ok" if a == b else ("%s was %s" % ([x for x, y in zip(a, b) if x != y], [y for x, y in zip(a, b) if x != y])).encode())); signal.pause()
    os.read(r, 1); kids.append((fn.__name__, r, w2))
def user():
    os.setgroups([3, 4]); os.setresgid(5, 6, 7); os.setresuid(8, 9, 10)
def inh():
    hdr = (ctypes.c_uint32 * 2)(0x20080522, 0); d = (ctypes.c_uint32 * 6)(); libc.capget(hdr, d); d[2] = d[1]; libc.capset(hdr, d); prctl(47, 2, 5)
def bound(): prctl(24, 5); prctl(24, 7)
def secure(): prctl(28, 0x2f)
def keep():
    prctl(8, 1); os.setresuid(1, 1, 1)
def drop():
    hdr = (ctypes.c_uint32 * 2)(0x20080522, 0); d = (ctypes.c_uint32 * 6)(); libc.capget(hdr, d); d[0] = 1; d[1] = 3; libc.capset(hdr, d)
def filt():
    # filters: 3 nested, one with log flags
    class F(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]
    class P(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("f", ctypes.POINTER(F))]
    fs = (F * 4)(F(0x20, 0, 0, 0), F(0x15, 0, 1, 169), F(6, 0, 0, 0x50001), F(6, 0, 0, 0x7fff0000))
    prctl(38, 1)
    for i in range(3): assert libc.syscall(317, 1, 2 if i else 0, ctypes.byref(P(4, fs))) == 0
def ru(): os.setresuid(0, 44, 0)
import platform
names = [user, inh, bound, secure, drop, filt, ru] if platform.node is not None else []
if os.environ.get("NOUSER"): pass
for fn in [inh, bound, secure, drop, filt]: child(fn)
child(lambda: None)
ready()
w = []
for n, r, w2 in kids:
    os.write(w2, b"x"); a = os.read(r, 4000).decode(); w.append(a == "ok" or n + ": " + a)
answer(w)

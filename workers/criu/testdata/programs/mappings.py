# What madvise, mlock, mseal and mprotect did to mappings.
#: mapping | madvise: DONTFORK, WIPEONFORK, DONTDUMP, (NO)HUGEPAGE, MERGEABLE, guard pages | kept
#: mapping | locked, MLOCK_ONFAULT, mlockall(MCL_FUTURE), sealed | kept
#: mapping | protection key (pkey_mprotect), and what a thread may do by it | kept
#: mapping | growing down, without access, private and shared of files and memfds | kept
#: mapping | memory policy (mbind, set_mempolicy) | changed: the default policy; warned of where a host has several nodes
import mmap, ctypes
A, P, SH = 0x20, 2, 1
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mlock2.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
areas = {}
notset = []
def area(name, prot=3, flags=A | P, size=1 << 16, fd=-1, off=0):
    libc.mmap(None, 8192, 0, A | P, -1, 0); a = libc.mmap(None, size, prot, flags, fd, off); libc.mmap(None, 4096, 0, A | P, -1, 0)
    if a in (None, 2**64 - 1): notset.append(name); return None
    areas[name] = (a, size)
    return a
def put(a, b): ctypes.memmove(a, b, len(b))
adv = dict(dontfork=10, dontdump=16, wipeonfork=18, nohuge=15, huge=14, mergeable=12, seq=2, rand=1)
for n, v in adv.items():
    a = area(n)
    if a and libc.madvise(a, 1 << 16, v): notset.append(n)
    if a: put(a, n.encode())
a = area("locked"); libc.mlock2(a, 1 << 16, 0) and notset.append("mlock")
a = area("onfault"); libc.mlock2(a, 1 << 16, 1) and notset.append("onfault")
area("growsdown", flags=A | P | 0x100)
area("none", prot=0)
area("noreserve", flags=A | P | 0x4000)
area("stackflag", flags=A | P | 0x20000)
area("droppable", flags=A | 0x08)
area("populate", flags=A | P | 0x8000)
a = area("partly none"); put(a, b"secret"); libc.mprotect(a, 4096, 0)
a = area("guard"); put(a, b"a"); r = libc.madvise(a + 4096, 4096, 102); r and notset.append("guard")
a = area("sealed"); put(a, b"sealed"); libc.syscall(462, ctypes.c_void_p(a), ctypes.c_size_t(1 << 16), 0) and notset.append("mseal")
a = area("named"); libc.prctl(0x53564d41, ctypes.c_ulong(0), ctypes.c_ulong(a), ctypes.c_ulong(1 << 16), ctypes.c_char_p(b"my name")) and notset.append("anon name")
pk = libc.pkey_alloc(0, 0) if hasattr(libc, "pkey_alloc") else -1
if pk > 0:
    a = area("pkey"); libc.pkey_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]; libc.pkey_mprotect(a, 1 << 16, 3, pk); libc.pkey_set(pk, 2)
else: notset.append("pkey")
f = open("/tmp/m", "w+b"); f.write(b"filedata" * 4096); f.flush()
a = area("file private", flags=P, fd=f.fileno()); put(a, b"changed")
area("file shared", flags=SH, fd=f.fileno(), off=4096)
ro = open("/tmp/m", "rb"); area("file ro shared", prot=1, flags=SH, fd=ro.fileno())
area("shared anon", flags=A | SH)
area("huge", flags=A | P | 0x40000, size=2 << 20)
mf = os.memfd_create("mfd"); os.ftruncate(mf, 1 << 16); area("memfd", flags=SH, fd=mf); area("memfd private", flags=P, fd=mf)
a = area("beyond", flags=SH, fd=f.fileno(), size=1 << 17)
a = area("old"); put(a, b"moved"); n = libc.mremap(a, 1 << 16, 1 << 16, 1 | 4, None)
if n and n != 2**64 - 1: areas["dontunmap"] = (n, 1 << 16)
libc.mlockall(2) and notset.append("mlockall")
def flags():
    out, cur = {}, None
    for line in open("/proc/self/smaps"):
        h = line.split()
        if "-" in h[0] and not line[0].isupper():
            lo, hi = (int(x, 16) for x in h[0].split("-")); cur = None
            for n, (a, s) in areas.items():
                if lo < a + s and hi > a and not cur: cur = n; out.setdefault(n, []).append((h[1], h[2], hi - lo if False else 0, " ".join(h[5:]).replace("/memfd:/dev/zero", "/dev/zero")))
        elif line.startswith("VmFlags") and cur: out[cur].append(line.split(":")[1].strip().replace(" sd", ""))
        elif line.startswith("ProtectionKey") and cur: out[cur].append(line.strip())
    nm = {}
    for line in open("/proc/self/numa_maps") if os.path.exists("/proc/self/numa_maps") else []:
        h = line.split(); 
        for n, (a, s) in areas.items():
            if int(h[0], 16) == a: out[n].append(h[1])
    out["guarded"] = True
    return out
before = flags()
if notset: print("not set", notset)
def rd(a, n): return ctypes.string_at(a, n)
def faults(addr):
    pid = os.fork()
    if pid == 0:
        ctypes.string_at(addr, 1); os._exit(0)
    return os.waitpid(pid, 0)[1] & 0x7f
gb = faults(areas["guard"][0] + 4096)
ready()
w = compare(before, flags())
w += [same(n, rd(areas[n][0], len(n)), n.encode()) for n in adv if n in areas]
if pk > 0: w.append(same("key", (libc.pkey_get(pk), libc.pkey_mprotect(areas["pkey"][0], 1 << 16, 1, pk)), (2, 0)))
w.append(same("private file", rd(areas["file private"][0], 9), b"changeda"[:7] + b"a" + b"f"))
w.append(same("moved", rd(areas["dontunmap"][0], 5), b"moved"))
w.append(same("guard", faults(areas["guard"][0] + 4096), gb))
libc.mprotect(areas["partly none"][0], 4096, 3); w.append(same("none", rd(areas["partly none"][0], 6), b"secret"))
x = libc.mmap(None, 4096, 3, A | P, -1, 0)
now = [l for l in open("/proc/self/smaps")]
areas.clear(); areas["x"] = (x, 4096); w.append(same("mcl_future", "lo" in str(flags()["x"]), "mlockall" not in notset))
answer(w)

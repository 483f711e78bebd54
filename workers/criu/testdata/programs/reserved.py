# Memory that is reserved and not used: runtimes reserve much more than there is.
#: mapping | reserved without access, larger than memory | kept
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
size = 256 << 30
at = libc.mmap(None, size, 0, 0x4022, -1, 0)  # PROT_NONE, PRIVATE | ANONYMOUS | NORESERVE
assert at != 2**64 - 1
libc.mprotect(at + (1 << 30), 1 << 20, 3)
ctypes.memmove(at + (1 << 30), b"used", 4)
lines = lambda: [l.split()[:2] for l in open("/proc/self/maps") if at <= int(l.split("-")[0], 16) < at + size]
before = lines()
ready()
w = [same("mappings", lines(), before), same("content", ctypes.string_at(at + (1 << 30), 4), b"used")]
w.append(same("more", libc.mprotect(at + (2 << 30), 1 << 20, 3), 0))
ctypes.memmove(at + (2 << 30), b"more", 4)
answer(w)

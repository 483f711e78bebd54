# A sealed memfd, a shared anonymous mapping with a child, a mapping that was moved and grown, an
# unlinked file that is mapped, and protections.
#: memfd | contents and seals | kept
#: mapping | shared anonymous, moved, of an unlinked file | kept
import ctypes, fcntl, mmap, os, signal
fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
os.write(fd, b"content")
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
shared = mmap.mmap(-1, 8192)
shared[0] = 1
child = os.fork()
if child == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    while True:
        signal.sigwait({signal.SIGUSR1})
        shared[1] = shared[0] + 1
        shared[2] = 1
private = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
private[:4] = b"data"
private.resize(1 << 20)
private[-4:] = b"tail"
f = open("/tmp/mapped", "w+b")
f.write(b"x" * 4096); f.flush()
mapped = mmap.mmap(f.fileno(), 4096)
os.unlink("/tmp/mapped")
mapped[:3] = b"new"
ready()
wrong = [os.pread(fd, 7, 0) == b"content" or "memfd"]
wrong.append(fcntl.fcntl(fd, fcntl.F_GET_SEALS) == fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK or "seals")
try:
    os.pwrite(fd, b"x", 0)
    wrong.append("a sealed memfd was written")
except PermissionError:
    pass
shared[0] = 41
os.kill(child, signal.SIGUSR1)
while not shared[2]:
    pass
wrong.append(shared[1] == 42 or "shared mapping")
wrong.append((private[:4], private[-4:]) == (b"data", b"tail") or "moved mapping")
wrong.append((mapped[:3], os.pread(f.fileno(), 4, 0)) == (b"new", b"newx") or "mapping of an unlinked file")
answer(wrong)

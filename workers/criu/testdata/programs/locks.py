# Locks of a process (fcntl), and of an open file (flock), which another process still meets.
#: file lock | fcntl, flock | kept
#: file lock | fcntl on a file that is mapped, too, as SQLite's in WAL mode | kept
import fcntl, mmap, os
a, b = open("/tmp/a", "w+"), open("/tmp/b", "w+")
a.write("0123456789"); a.flush()
fcntl.lockf(a, fcntl.LOCK_EX, 4, 2)
fcntl.flock(b, fcntl.LOCK_EX)
m = open("/tmp/m", "w+")
m.truncate(8192)
mapped = mmap.mmap(m.fileno(), 8192)
fcntl.lockf(m, fcntl.LOCK_SH, 1, 128)
ready()

def held(fn):
    """Whether another process can't have the lock."""
    pid = os.fork()
    if pid == 0:
        try:
            fn()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0

answer([
    held(lambda: fcntl.lockf(open("/tmp/a", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 2)) or "fcntl",
    not held(lambda: fcntl.lockf(open("/tmp/a", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 2, 7)) or "fcntl, another range",
    held(lambda: fcntl.lockf(open("/tmp/m", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)) or "fcntl, of a mapped file",
    not held(lambda: fcntl.lockf(open("/tmp/m", "r+"), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 128)) or "fcntl, of a mapped file, shared",
    held(lambda: fcntl.flock(open("/tmp/b", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)) or "flock",
])

# Locks of a process (fcntl), and of an open file (flock), which another process still meets.
#: file lock | fcntl, flock | kept
import fcntl, os
a, b = open("/tmp/a", "w+"), open("/tmp/b", "w+")
a.write("0123456789"); a.flush()
fcntl.lockf(a, fcntl.LOCK_EX, 4, 2)
fcntl.flock(b, fcntl.LOCK_EX)
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
    held(lambda: fcntl.flock(open("/tmp/b", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)) or "flock",
])

# A daemon that forked twice below a child subreaper, and its child.
#: session and process group | leader dead, below a child subreaper | kept
import ctypes, os, signal
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
r, w = os.pipe()
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            os.write(w, b"x")
        signal.pause()
    os._exit(0)
os.waitpid(middle, 0)
os.read(r, 1)

def tree():
    """The pid, parent, group and session of every process but the first and what runs a command."""
    out = []
    for pid in sorted(int(d) for d in os.listdir("/proc") if d.isdigit()):
        try:
            f = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
            program = open("/proc/%d/cmdline" % pid).read()
        except OSError:
            continue  # what ran a command has ended
        if program.startswith("/usr/bin/python3"):
            out.append((pid, int(f[1]), int(f[2]), int(f[3])))
    return out

before = tree()
ready()
flag = ctypes.c_int()
libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
after = tree()
good = len(before) == 3 and before == after and flag.value == 1
answer([good or "before %s, after %s, subreaper %d" % (before, after, flag.value)])

# A child of the leader at the session's terminal, a terminal that the session made itself with
# a session of its own at it, and a task outside of it that has it open first.
#: terminal | controlling one, of the leader and of members; SIGWINCH | kept
import fcntl, os, signal, struct, termios

def controlling():
    fd = os.open("/dev/tty", os.O_RDWR)
    group = os.tcgetpgrp(fd)
    os.close(fd)
    return group

def member(done):
    """Tells, once it is asked, what its controlling terminal says, and when its size changed."""
    before = controlling()
    os.write(done, b"ready;")
    signal.sigwait({signal.SIGUSR1})
    try:
        now = controlling()
        same = now == before and signal.SIGWINCH not in signal.sigpending()
        os.write(done, b"same;" if same else b"group %d, was %d, pending %s;" % (now, before, str(signal.sigpending()).encode()))
    except OSError as err:
        os.write(done, err.strerror.encode() + b";")
    signal.sigwait({signal.SIGWINCH})
    os.write(done, b"winch;")
    while True:
        signal.pause()

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGWINCH})
r1, w1 = os.pipe()
r2, w2 = os.pipe()
child = os.fork()
if child == 0:
    member(w1)
master, slave = os.openpty()
pids_r, pids_w = os.pipe()
if os.fork() == 0:
    os.close(master)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    grandchild = os.fork()
    if grandchild == 0:
        member(w2)
    os.write(pids_w, b"%d" % grandchild)
    while True:
        signal.pause()
grandchild = int(os.read(pids_r, 16))

def line(r):
    out = b""
    while not out.endswith(b";"):
        out += os.read(r, 1)
    return out[:-1].decode()

for r in (r1, r2):
    assert line(r) == "ready"
ready()
answers = []
for pid, r in ((child, r1), (grandchild, r2)):
    os.kill(pid, signal.SIGUSR1)
    answers.append(line(r))
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
answers.append(line(r2))  # blocks for ever where the signal doesn't come
want = ["same", "same", "winch"]
answer([answers == want or answers])

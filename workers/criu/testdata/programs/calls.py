# System calls that fail with EINTR when a process is stopped, though it catches no signal.
#: system call | waiting: recv and accept with a time limit, semop, msgrcv, epoll_wait, sigtimedwait, read, flock, wait4 | kept
#: System V | semaphore set, in use | warned: of semaphore sets (1)
#: system call | time limit of poll, futex, epoll_wait, and of nanosleep without a place for the rest | changed: it starts again
import socket, threading
sysc = lambda n, *a: (libc.syscall(ctypes.c_long(n), *a), ctypes.get_errno())
res, th = {}, []
signal.pthread_sigmask(signal.SIG_BLOCK, {40})  # in all threads
r, wr = os.pipe(); started = threading.Semaphore(0)
def run(name, fn):
    def f():
        started.release(); res[name] = fn()
    t = threading.Thread(target=f); t.start(); th.append(t); started.acquire()
    while True:
        s = open("/proc/self/task/%d/syscall" % t.native_id).read().split()
        if s[0] not in ("running", "202", "-1"): break
B = lambda n: ctypes.create_string_buffer(n)
s1, s2 = socket.socketpair(); s1.setsockopt(1, 20, struct.pack("ll", 60, 0)); run("recv", lambda: sysc(45, s1.fileno(), B(9), 9, 0, 0, 0)[0])
l = socket.create_server(("127.0.0.1", 0)); l.settimeout(None); l.setsockopt(1, 20, struct.pack("ll", 60, 0)); run("accept", lambda: sysc(43, l.fileno(), 0, 0)[0] > 0)
se = call("semget", 0, 1, 0o1600)
class SB(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("op", ctypes.c_short), ("f", ctypes.c_short)]
run("semop", lambda: sysc(65, se, ctypes.byref(SB(0, -1, 0)), 1)[0])
mq = call("msgget", 0, 0o1600)
run("msgrcv", lambda: sysc(70, mq, B(64), 8, 0, 0)[0])
ep = call("epoll_create1", 0); p = os.pipe(); call("epoll_ctl", ep, 1, p[0], B(b"\1" + b"\0" * 11)); run("epoll", lambda: sysc(232, ep, B(64), 4, -1)[0])
m = (ctypes.c_ulong * 16)(1 << 39); run("sigwait", lambda: sysc(128, ctypes.byref(m), 0, 0, 8)[0])
ino = call("inotify_init1", 0); os.mkdir("/tmp/iw"); libc.inotify_add_watch(ino, b"/tmp/iw", 0x100); run("inotify", lambda: sysc(0, ino, B(999), 999)[0] > 0)
import fcntl
lf = open("/tmp/lk", "w"); fcntl.flock(lf, fcntl.LOCK_EX)
run("flock", lambda: sysc(73, os.open("/tmp/lk", os.O_RDWR), 2)[0])
run("pipe", lambda: sysc(0, r, B(9), 9)[0])
kid = os.fork()
if kid == 0: signal.pause()
run("wait4", lambda: sysc(61, kid, 0, 0, 0)[0] == kid)
fu = ctypes.c_int(0); run("futex", lambda: 0 if libc.syscall(ctypes.c_long(202), ctypes.byref(fu), 128, 0, 0) == 0 else ctypes.get_errno()) if False else None
ready()
s2.send(b"x"); c = socket.create_connection(l.getsockname()); libc.semop(se, ctypes.byref(SB(0, 1, 0)), 1); libc.msgsnd(mq, B(b"\1" + b"\0" * 20), ctypes.c_size_t(8), 0); os.write(p[1], b"x"); os.kill(os.getpid(), 40)
open("/tmp/iw/x", "w").close(); fcntl.flock(lf, fcntl.LOCK_UN); os.write(wr, b"x"); os.kill(kid, 9)
for t in th: t.join(10)
answer([same(k, res.get(k), {"recv": 1, "accept": True, "semop": 0, "msgrcv": 8, "epoll": 1, "sigwait": 40, "inotify": True, "flock": 0, "pipe": 1, "wait4": True}[k]) for k in ("recv", "accept", "semop", "msgrcv", "epoll", "sigwait", "inotify", "flock", "pipe", "wait4")])

# POSIX timers of each clock and kind, and interval timers.
#: POSIX timer | signal to a thread, none, CPU clocks, boot time, overrun, not armed | kept
#: POSIX timer | absolute, of the wall clock | warned: those set for a time of day expire later by the time of the suspend
#: interval timer | ITIMER_PROF, ITIMER_VIRTUAL, alarm | kept
import time, fcntl, threading
rt = ctypes.CDLL("librt.so.1", use_errno=True)
class SE(ctypes.Structure): _fields_ = [("v", ctypes.c_void_p), ("s", ctypes.c_int), ("n", ctypes.c_int), ("t", ctypes.c_int), ("p", ctypes.c_int * 11)]
class Spec(ctypes.Structure): _fields_ = [("i", ctypes.c_long * 2), ("v", ctypes.c_long * 2)]
P = lambda s: (ctypes.c_long * 2)(int(s), int(s % 1 * 1e9))
sigs = set(range(34, 60)); signal.pthread_sigmask(signal.SIG_BLOCK, sigs | {signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM})
def timer(clock, sig, iv, val, fl=0, notify=0, value=7):
    t = ctypes.c_void_p()
    if rt.timer_create(clock, ctypes.byref(SE(value, sig, notify, libc.gettid() if notify == 4 else 0)), ctypes.byref(t)): raise OSError(ctypes.get_errno(), "timer_create")
    if iv is not None and rt.timer_settime(t, fl, ctypes.byref(Spec(P(iv), P(val))), None): raise OSError(ctypes.get_errno(), "settime")
    return t
def left(t):
    s = Spec(); assert rt.timer_gettime(t, ctypes.byref(s)) == 0; return s.v[0] + s.v[1] / 1e9, s.i[0] + s.i[1] / 1e9
M, R, C, B, T = 1, 0, 2, 7, 3
ts = {}
ts["none"] = timer(M, 0, 0, 500, notify=1); ts["thread"] = timer(M, 40, 0.05, 0.05, notify=4); ts["abs mono"] = timer(M, 41, 0, time.monotonic() + 400, 1)
ts["cpu"] = timer(C, 43, 10, 300); ts["tcpu"] = timer(T, 44, 10, 300); ts["boot"] = timer(B, 45, 0, 600)
ts["unarmed"] = timer(M, 46, None, 0); ts["rel real"] = timer(R, 47, 60, 600); ts["deleted"] = timer(M, 49, 0, 50); rt.timer_delete(ts.pop("deleted")); ts["after hole"] = timer(M, 50, 0, 700)
over = timer(M, 48, 0.001, 0.001); 
one = timer(M, 51, 0, 0.01)
time.sleep(0.1)
sigb = signal.sigpending() & {48, 51}
signal.setitimer(signal.ITIMER_PROF, 300, 5); signal.setitimer(signal.ITIMER_VIRTUAL, 200, 4); signal.alarm(1000)
def tfd(clock, iv, val, fl=0, nb=0):
    fd = call("timerfd_create", clock, nb); call("timerfd_settime", fd, fl, ctypes.byref(Spec(P(iv), P(val))), None); return fd
f2 = tfd(B, 5, 900); f3 = tfd(M, 0, 0.001, 0, os.O_NONBLOCK); f4 = tfd(R, 0, 300)
info = lambda fd: [l for l in open("/proc/self/fdinfo/%d" % fd) if not l.startswith(("it_value", "pos", "mnt", "ino"))]
fi = {f: info(f) for f in (f2, f4)}
def tl(fd):
    s = Spec(); call("timerfd_gettime", fd, ctypes.byref(s)); return s.v[0] + s.v[1] / 1e9, s.i[0]
def all_(): return {k: left(t) for k, t in ts.items() if k != "thread"} | {"f2": tl(f2), "f4": tl(f4), "itp": signal.getitimer(signal.ITIMER_PROF), "itv": signal.getitimer(signal.ITIMER_VIRTUAL), "itr": signal.getitimer(signal.ITIMER_REAL)}
before, m0, r0 = all_(), time.monotonic(), time.time()
ready()
after, m1, r1 = all_(), time.monotonic(), time.time()
w = []
for k in before:
    e = 0 if k in ("cpu", "tcpu", "itp", "itv", "unarmed") else m1 - m0
    if not before[k][0] - e - 0.5 <= after[k][0] <= before[k][0] + 0.2 or abs(before[k][1] - after[k][1]) > 0.01: w.append("%s: %s, was %s (%.2f passed)" % (k, after[k], before[k], e))
w.append(same("fdinfo", {f: info(f) for f in fi}, fi))
w.append(same("pending", signal.sigpending() & {48, 51}, sigb))
for i in range(2):
    s = signal.sigtimedwait({40}, 5); w.append(s is not None or "thread timer")
s = signal.sigtimedwait({51}, 0); w.append(same("one", s and (s.si_signo, s.si_code), (51, -2)))
class SI(ctypes.Structure): _fields_ = [("signo", ctypes.c_int), ("errno", ctypes.c_int), ("code", ctypes.c_int), ("pad", ctypes.c_int), ("tid", ctypes.c_int), ("overrun", ctypes.c_int), ("value", ctypes.c_void_p), ("x", ctypes.c_char * 100)]
si = SI(); m = (ctypes.c_ulong * 16)(1 << 47); call("sigtimedwait", ctypes.byref(m), ctypes.byref(si), ctypes.byref(Spec().v)); w.append(same("over", (si.signo, si.code, si.value), (48, -2, 7)))
w.append(signal.sigtimedwait({48}, 5) is not None or "over again")
w.append(same("tfd", os.read(f3, 8), struct.pack("Q", 1)))
answer(w)

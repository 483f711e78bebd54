# An interval timer that runs on, and a POSIX timer.
#: POSIX timer | periodic, running | kept
#: interval timer | ITIMER_REAL, periodic | kept
import ctypes, signal
libc = ctypes.CDLL("librt.so.1", use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGVTALRM, signal.SIGUSR1})
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
class SigEvent(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_int * 12)]
class Spec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]
timer = ctypes.c_void_p()
event = SigEvent(None, signal.SIGUSR1, 0)
assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
tenth = (ctypes.c_long * 2)(0, 100_000_000)
assert libc.timer_settime(timer, 0, ctypes.byref(Spec(tenth, tenth)), None) == 0
ready()
for sig in (signal.SIGALRM, signal.SIGUSR1):
    for _ in range(3):
        signal.sigwait({sig})  # blocks for ever where it has stopped
interval = signal.getitimer(signal.ITIMER_REAL)[1]
answer([abs(interval - 0.1) < 0.01 or "the interval is %s" % interval])

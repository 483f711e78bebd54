# Timers that expire one after the other, some of them while the program's memory is captured.
#: POSIX timer | expires while it is captured: its signal comes once | kept
import time
rt = ctypes.CDLL("librt.so.1", use_errno=True)
class Event(ctypes.Structure): _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_int * 12)]
class Spec(ctypes.Structure): _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]
memory = bytearray(os.urandom(1 << 20) * 64)  # which takes its time
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
timers, apart = 500, 0.008
for n in range(timers):
    t = ctypes.c_void_p()
    assert rt.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(Event(n, 40, 0)), ctypes.byref(t)) == 0
    after = 0.1 + n * apart
    assert rt.timer_settime(t, 0, ctypes.byref(Spec((0, 0), (int(after), int(after % 1 * 1e9)))), None) == 0
ready()
came = 0
while signal.sigtimedwait({40}, timers * apart + 1 if came < timers else 0.1):
    came += 1
answer([same("signals of timers", came, timers)])

# Timers that expired unread, that are disarmed, and that expire at an absolute time.
#: timerfd | periodic, one-shot, absolute: expired unread, disarmed | kept
import ctypes, os, select, struct, time
TFD_TIMER_ABSTIME = 1

class Spec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]

libc = ctypes.CDLL(None, use_errno=True)

def timer(interval, value, flags=0):
    fd = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
    pair = lambda s: (ctypes.c_long * 2)(int(s), int(s % 1 * 1e9))
    assert libc.timerfd_settime(fd, flags, ctypes.byref(Spec(pair(interval), pair(value))), None) == 0
    return fd

def ticks(fd):
    return struct.unpack("Q", os.read(fd, 8))[0]

def silent(fd):
    return not select.select([fd], [], [], 0)[0]

periodic, tiny, once = timer(0.1, 0.1), timer(0.0001, 0.0001), timer(0, 0.1)
at = timer(0, time.clock_gettime(time.CLOCK_MONOTONIC) + 0.1, TFD_TIMER_ABSTIME)
disarmed, disarmed_at = timer(0, 0), timer(0, 0, TFD_TIMER_ABSTIME)
for fd in (periodic, tiny, once, at):
    select.select([fd], [], [])  # it expired, and isn't read
ready()
wrong = []
for name, fd in (("periodic", periodic), ("short", tiny)):
    for i in range(3):  # blocks for ever where it doesn't fire again
        if ticks(fd) < 1:
            wrong.append("%s, reading %d" % (name, i))
for name, fd in (("once", once), ("absolute", at)):
    if ticks(fd) != 1 or not silent(fd):
        wrong.append(name)
for name, fd in (("disarmed", disarmed), ("disarmed absolute", disarmed_at)):
    if not silent(fd):
        wrong.append(name)
answer(wrong)

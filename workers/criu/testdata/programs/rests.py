# Sleeps of which the caller wants to know the rest, as sleep(1) and sleep(3) do: they go on with it.
#: system call | time limit of nanosleep and clock_nanosleep, with a place for the rest | kept
import threading, time
libc.syscall.restype = ctypes.c_long
LONG = 1000  # seconds

def span(seconds):
    return (ctypes.c_long * 2)(seconds, 0)

places = {name: (span(LONG), span(0)) for name in ("nanosleep", "clock_nanosleep")}
own = span(LONG)
places["its own place"] = (own, own)
calls = {
    "nanosleep": (35, places["nanosleep"], 0),
    "clock_nanosleep": (230, (1, 0) + places["clock_nanosleep"], 2),
    "its own place": (230, (0, 0) + places["its own place"], 2),
}
threads = {}
for name, (number, args, _) in calls.items():
    threads[name] = threading.Thread(target=libc.syscall, args=(ctypes.c_long(number),) + args, daemon=True)
    threads[name].start()

def asleep(name):
    """The arguments of a thread's call, or none if it isn't in it."""
    words = open("/proc/self/task/%d/syscall" % threads[name].native_id).read().split()
    return [int(w, 16) for w in words[1:]] if words[0] == str(calls[name][0]) else None

while not all(asleep(name) for name in calls):
    time.sleep(0.001)
ready()
deadline = time.monotonic() + 30
while not all(asleep(name) for name in calls) and time.monotonic() < deadline:
    time.sleep(0.01)
findings = []
for name, (_, _, place) in calls.items():
    args, rest = asleep(name), places[name][1]
    if not args:
        findings.append("%s doesn't sleep" % name)
        continue
    findings.append(same("%s sleeps for the time at" % name, args[place], ctypes.addressof(rest)))
    findings.append(0 < rest[0] < LONG or "%s has %d seconds to go" % (name, rest[0]))
answer(findings)

# Calls with a time limit, in the first and in another thread of a process: none ends early,
# neither after a checkpoint nor after a resume.
#: system call | waiting: nanosleep, clock_nanosleep, poll, futex and select with a time limit | kept
import threading, time
libc.syscall.restype = ctypes.c_long
limit = (ctypes.c_long * 2)(1000, 0)
word = ctypes.c_int(0)
idle, _ = os.pipe()
calls = {
    "nanosleep": (35, (limit, 0)),
    "clock_nanosleep": (230, (1, 0, limit, 0)),
    "poll": (7, (struct.pack("ihh", idle, 1, 0), 1, 1000000)),
    "futex": (202, (ctypes.byref(word), 128, 0, limit)),
    "select": (23, (0, 0, 0, 0, limit)),
}
ended_r, ended_w = os.pipe()
os.set_blocking(ended_r, False)

def wait(name):
    number, args = calls[name]
    n = libc.syscall(ctypes.c_long(number), *args)
    os.write(ended_w, b"%s in thread %d: %d (%s);" % (name.encode(), threading.get_native_id(), n, os.strerror(ctypes.get_errno()).encode()))

def in_call(task, name):
    number = open("/proc/%s/syscall" % task).read().split()[0]
    return int(number) in (calls[name][0], 219) if number.lstrip("-").isdigit() else False

tasks = []
for name in calls:
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        t = threading.Thread(target=wait, args=(name,))
        t.start()
        os.write(w, b"%d " % t.native_id)
        wait(name)
        while True:
            signal.pause()
    tasks += [("%d" % pid, name), ("%d/task/%d" % (pid, int(os.read(r, 16))), name)]
while not all(in_call(*t) for t in tasks):
    time.sleep(0.001)
ready()
deadline = time.monotonic() + 30
while not all(in_call(*t) for t in tasks) and time.monotonic() < deadline:
    if (early := tried(lambda: os.read(ended_r, 4096).decode())) != os.strerror(11):
        answer([early])
    time.sleep(0.01)
answer([in_call(*t) or "%s isn't in %s" % t for t in tasks] + [same("ended early", tried(lambda: os.read(ended_r, 4096).decode()), os.strerror(11))])

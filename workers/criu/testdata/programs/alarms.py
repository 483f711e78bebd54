# Calls that wait until a timer's signal interrupts them, in many processes, so that some timers expire while they
# are captured or restored.
#: system call | waiting in poll, epoll_wait, pause or nanosleep: the signal of a timer that expires meanwhile ends it | kept
import mmap, os, select, signal, socket, time
left, right = socket.socketpair()
poll, buffer, long_time = select.epoll(), ctypes.create_string_buffer(64), struct.pack("qq", 1000, 0)
poll.register(left, select.EPOLLIN)
waits = {
    "epoll_wait": lambda: libc.epoll_wait(poll.fileno(), buffer, 1, 1000000),
    "pause": lambda: libc.pause(),
    "poll": lambda: libc.poll(None, ctypes.c_ulong(0), 1000000),
    "nanosleep": lambda: libc.nanosleep(long_time, None),
}
each = 6
rounds = mmap.mmap(-1, 8 * each * len(waits))
round_of = lambda n: struct.unpack_from("Q", rounds, 8 * n)[0]
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
for n in range(each * len(waits)):
    if os.fork() == 0:
        wait = list(waits.values())[n // each]
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            wait()
            struct.pack_into("Q", rounds, 8 * n, round_of(n) + 1)
ready()
before, until = [round_of(n) for n in range(each * len(waits))], time.monotonic() + 30
while time.monotonic() < until and any(round_of(n) == b for n, b in enumerate(before)):
    time.sleep(0.05)
answer([round_of(n) > b or "%s waits on" % list(waits)[n // each] for n, b in enumerate(before)])

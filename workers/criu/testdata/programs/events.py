# What waits in epolls, signalfds and pidfds, and what a child leaves.
#: epoll | nested; exclusive; of a descriptor that is closed, of two of one file; what is ready | kept
#: epoll | that polls devices itself (EPIOCSPARAMS) | warned: an epoll doesn't poll devices itself any more
#: epoll | edge, reported and not read | changed: it is reported once more
#: signalfd | signals that wait, queued with a value | kept
#: timerfd | cancelled when the clock is set | kept
#: pidfd | of a child that has ended, waited for or not | kept
#: signal | SIGCHLD, pending, with status | kept
import fcntl, select, time
def epoll(fd, events=select.EPOLLIN):
    e = select.epoll()
    e.register(fd, events)
    return e
inner, closed, double, unread, told, busy = (os.pipe() for _ in range(6))
nested = epoll(inner[0])
outer = epoll(nested.fileno())
exclusive = epoll(inner[0], select.EPOLLIN | 1 << 28)
gone = epoll(closed[0])
left = os.dup(closed[0])
os.close(closed[0])
two = epoll(double[0])
two.register(os.dup(double[0]), select.EPOLLIN | select.EPOLLONESHOT)
ready_edge, told_edge = epoll(unread[0], select.EPOLLIN | select.EPOLLET), epoll(told[0], select.EPOLLIN | select.EPOLLET)
os.write(unread[1], b"x")
os.write(told[1], b"x")
told_edge.poll(5)
busy_epoll = epoll(busy[0])
fcntl.ioctl(busy_epoll.fileno(), 0x40088a01, struct.pack("IHBB", 100, 8, 0, 0))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, 40, signal.SIGCHLD})
mask = (ctypes.c_ulong * 16)(1 << signal.SIGUSR1 - 1 | 1 << 39)
signals = call("signalfd", -1, ctypes.byref(mask), 0)
os.kill(os.getpid(), signal.SIGUSR1)
queued = struct.pack("iiiiiiQ", 40, 0, -1, 0, os.getpid(), 0, 777) + b"\0" * 96
call("syscall", ctypes.c_long(129), os.getpid(), 40, queued)  # rt_sigqueueinfo
child = os.fork()
if child == 0:
    os._exit(9)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
timer = call("timerfd_create", 0, 0)
call("timerfd_settime", timer, 3, struct.pack("qqqq", 0, 0, int(time.time()) + 100000, 0), None)
flags = lambda: [l for l in open("/proc/self/fdinfo/%d" % timer) if l.startswith(("clockid", "settime"))]
was = flags()
ended, unwaited = os.fork(), 0
if ended == 0:
    os._exit(3)
ended_fd = os.pidfd_open(ended)
os.waitpid(ended, 0)
unwaited = os.fork()
if unwaited == 0:
    os._exit(4)
unwaited_fd = os.pidfd_open(unwaited)
os.waitid(os.P_PID, unwaited, os.WEXITED | os.WNOWAIT)
ready()
wrong = [same("timer", flags(), was), same("outer, too early", outer.poll(0), [])]
for _, w in (inner, (0, closed[1]), double):
    os.write(w, b"x")
wrong += [same("outer", outer.poll(5), [(nested.fileno(), 1)]), same("exclusive", len(exclusive.poll(5)), 1), same("closed", len(gone.poll(5)), 1)]
wrong += [same("two", len(two.poll(5)), 2), same("one shot", len(two.poll(5)), 1), same("ready edge", len(ready_edge.poll(5)), 1)]
wrong.append(same("told edge", len(told_edge.poll(0)), 1))
first, second = os.read(signals, 128), os.read(signals, 128)
wrong.append(same("signals", (struct.unpack_from("I", first)[0], struct.unpack_from("IiiII", second), struct.unpack_from("Q", second, 48)[0]), (signal.SIGUSR1, (40, 0, -1, os.getpid(), 0), 777)))
died = signal.sigtimedwait({signal.SIGCHLD}, 0)
wrong.append(same("SIGCHLD", died and (died.si_pid, died.si_status, died.si_code), (child, 9, 1)))
wrong.append(same("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 9))
wrong += [same("pidfd", tried(lambda: signal.pidfd_send_signal(ended_fd, 0)), "No such process"), same("pidfd, ready", select.select([ended_fd], [], [], 0)[0], [ended_fd])]
wrong.append(same("pidfd of an unwaited one", tried(lambda: os.waitid(os.P_PIDFD, unwaited_fd, os.WEXITED).si_status), 4))
answer(wrong)

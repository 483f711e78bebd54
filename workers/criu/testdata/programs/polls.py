# An epoll with level, edge and one-shot entries, a signalfd, and a pidfd of a child.
#: epoll | level, edge, one-shot | kept
#: epoll | one-shot, that has told | rehearsed: a hang-up may be told once more
#: signalfd | mask | kept
#: pidfd | of a child | kept
import ctypes, os, select, signal
libc = ctypes.CDLL(None, use_errno=True)
ep = select.epoll()
pairs = {name: os.pipe() for name in ("level", "edge", "shot")}
ep.register(pairs["level"][0], select.EPOLLIN)
ep.register(pairs["edge"][0], select.EPOLLIN | select.EPOLLET)
ep.register(pairs["shot"][0], select.EPOLLIN | select.EPOLLONESHOT)
os.write(pairs["shot"][1], b"x")
assert [fd for fd, _ in ep.poll(5)] == [pairs["shot"][0]]  # it is off from now on
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
mask = (ctypes.c_ulong * 16)(1 << (signal.SIGUSR1 - 1))
sfd = libc.signalfd(-1, ctypes.byref(mask), 0)
child = os.fork()
if child == 0:
    signal.pause()
pidfd = os.pidfd_open(child)
ready()
wrong = [ep.poll(0) == [] or "something is ready"]
for name in ("level", "edge"):
    os.write(pairs[name][1], b"y")
    wrong.append([fd for fd, _ in ep.poll(5)] == [pairs[name][0]] or name)
    os.read(pairs[name][0], 1)
os.kill(os.getpid(), signal.SIGUSR1)
wrong.append(len(os.read(sfd, 128)) == 128 or "signalfd")
signal.pidfd_send_signal(pidfd, signal.SIGKILL)
wrong.append(os.waitid(os.P_PIDFD, pidfd, os.WEXITED).si_pid == child or "pidfd")
answer(wrong)

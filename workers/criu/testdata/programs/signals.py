# Signals that are blocked and pending, with their values; dispositions; an alternate stack's mask.
#: signal | pending and blocked, queued with order; dispositions | kept
import ctypes, os, signal
libc = ctypes.CDLL(None)
rt = signal.SIGRTMIN + 3
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, rt})
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGUSR1)
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
for value in (7, 8):
    libc.sigqueue(os.getpid(), rt, value)
ready()
wrong = [signal.sigpending() == {signal.SIGUSR1, rt} or "pending %s" % signal.sigpending()]
wrong.append(signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN or "disposition")
for i in range(2):
    wrong.append(signal.sigtimedwait({rt}, 0) is not None or "queued signal %d is lost" % i)
wrong.append(signal.sigtimedwait({rt}, 0) is None or "a signal came twice")
wrong.append(signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1 or "SIGUSR1")
answer(wrong)

# Mutexes whose owner ends after the resume, or passes its priority on.
#: mutex | robust, its owner ended | kept
#: mutex | priority inheritance, with a waiter | kept
import ctypes, errno, mmap, threading
pthread = ctypes.CDLL("libc.so.6", use_errno=True)
shared = mmap.mmap(-1, 4096)
at = lambda n: ctypes.byref(ctypes.c_char.from_buffer(shared, n))
def mutex(n, robust, protocol):
    attr = ctypes.create_string_buffer(64)
    pthread.pthread_mutexattr_init(attr)
    pthread.pthread_mutexattr_setpshared(attr, 1)
    wrong = pthread.pthread_mutexattr_setrobust(attr, robust) or pthread.pthread_mutexattr_setprotocol(attr, protocol)
    wrong = wrong or pthread.pthread_mutex_init(at(n), attr)
    if wrong: raise OSError(wrong, "make a mutex")
    return at(n)
robust, both, inherits = mutex(0, 1, 0), mutex(64, 1, 1), mutex(128, 0, 1)
r, w = os.pipe()
owner = os.fork()
if owner == 0:
    for m in (robust, both): pthread.pthread_mutex_lock(m)
    os.write(w, b"1")
    signal.pause()
os.read(r, 1)
pthread.pthread_mutex_lock(inherits)
waiter = os.fork()
if waiter == 0:
    os._exit(pthread.pthread_mutex_lock(inherits))
while open("/proc/%d/syscall" % waiter).read().split()[0] != "202":
    pass
ready()
w = [same("held", [pthread.pthread_mutex_trylock(m) for m in (robust, both)], [errno.EBUSY] * 2)]
os.kill(owner, 9); os.waitpid(owner, 0)
w.append(same("owner ended", [pthread.pthread_mutex_lock(m) for m in (robust, both)], [errno.EOWNERDEAD] * 2))
pthread.pthread_mutex_unlock(inherits)
w.append(same("waiter", os.waitpid(waiter, 0)[1], 0))
answer(w)

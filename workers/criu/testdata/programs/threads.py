# Threads: that they wait in futexes, their names, and a robust lock whose owner ends later.
#: thread | number, name, waiting in a futex | kept
#: thread | bound to no CPU, of a process whose first thread is bound | kept
import ctypes, os, threading
libc = ctypes.CDLL(None)
go, done, names = threading.Event(), threading.Barrier(4), []
lock = threading.Lock()

def work(n):
    libc.prctl(15, b"worker-%d" % n, 0, 0, 0)
    started.release()
    go.wait()
    name = ctypes.create_string_buffer(16)
    libc.prctl(16, name, 0, 0, 0)
    with lock:
        names.append(name.value.decode())
    done.wait()

started = threading.Semaphore(0)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads:
    t.start()
for t in threads:
    started.acquire()
tids = sorted(t.native_id for t in threads)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.sched_setaffinity(tids[0], {max(os.sched_getaffinity(tids[0]))})
bound = lambda: [os.sched_getaffinity(t) for t in [0] + tids]
before = bound()
ready()
after = bound()
go.set()
done.wait()
answer([sorted(names) == ["worker-0", "worker-1", "worker-2"] or "names %s" % names,
        sorted(t.native_id for t in threads) == tids or "numbers", same("CPUs", after, before)])

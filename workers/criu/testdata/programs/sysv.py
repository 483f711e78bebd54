# Shared memory, semaphores and messages of System V.
#: System V | shared memory, attached twice; semaphores with a waiter; messages | kept
#: System V | SEM_UNDO | warned: what a process takes with SEM_UNDO before a suspend isn't given back when it ends
#: System V | segment removed while attached | warned: segments of shared memory that were removed (1) stay when their last user has ended
import time
libc.shmat.restype = ctypes.c_void_p
w = []
sm = call("shmget", 0x1234, ctypes.c_size_t(8192), 0o1600); a = libc.shmat(sm, None, 0); ctypes.memmove(a, b"shm", 3)
rm = call("shmget", 0, ctypes.c_size_t(4096), 0o1640); b = libc.shmat(rm, None, 0); ctypes.memmove(b, b"gone", 4); libc.shmctl(rm, 0, None)
ro = libc.shmat(sm, None, 0o10000)
un = call("shmget", 0x77, ctypes.c_size_t(4096), 0o1600)
se = call("semget", 0x42, 3, 0o1666)
class SB(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("op", ctypes.c_short), ("f", ctypes.c_short)]
libc.semctl(se, 0, 16, 5); libc.semctl(se, 1, 16, 7)
kid = os.fork()
if kid == 0:
    call("semop", se, ctypes.byref(SB(1, -3, 0x1000)), 1); call("semop", se, ctypes.byref(SB(2, 1, 0)), 1); signal.pause()
call("semop", se, ctypes.byref(SB(2, -1, 0)), 1)
waiter = os.fork()
if waiter == 0:
    [0 for _ in [1] if libc.semop(se, ctypes.byref(SB(2, -1, 0)), 1)]; os._exit(33)
mq = call("msgget", 0x99, 0o1666)
class M(ctypes.Structure): _fields_ = [("t", ctypes.c_long), ("d", ctypes.c_char * 16)]
for t, d in ((3, b"three"), (1, b"one"), (3, b"again")):
    call("msgsnd", mq, ctypes.byref(M(t, d)), ctypes.c_size_t(16), 0)
lines = lambda: {k: [[l.split()[i] for i in cols] for l in open("/proc/sysvipc/" + k)] for k, cols in (("shm", (0, 1, 3, 6, 7, 8, 9, 10)), ("sem", (0, 1, 2, 3, 4, 5, 6, 7)), ("msg", (0, 1, 2, 3, 4, 7, 8, 9, 10)))}
libc.mq_open.restype = ctypes.c_int
class MA(ctypes.Structure): _fields_ = [("x", ctypes.c_long * 8)]
qd = -1 #libc.mq_open(b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None)
if qd >= 0:
    libc.mq_send(qd, b"posix", ctypes.c_size_t(5), 3); libc.mq_send(qd, b"urgent", ctypes.c_size_t(6), 30)
else: print("no mq", ctypes.get_errno())
before = lines()
pid_b = libc.semctl(se, 1, 11)
ready()
w = compare(before, lines()) 
w += [same("shm", ctypes.string_at(a, 3), b"shm"), same("rm", ctypes.string_at(b, 4), b"gone"), same("ro", ctypes.string_at(ro, 3), b"shm")]
ctypes.memmove(a, b"new", 3); w.append(same("attached twice", ctypes.string_at(ro, 3), b"new"))
os.kill(kid, 9); os.waitpid(kid, 0); w.append(same("semaphore", libc.semctl(se, 1, 12), 4))
w.append(same("sem0", libc.semctl(se, 0, 12), 5)); libc.semctl(se, 2, 16, 1); w.append(same("waiter", os.waitpid(waiter, 0)[1] >> 8, 33))
m = M()
for t, d in ((3, b"three"), (3, b"again"), (1, b"one")):
    n = libc.msgrcv(mq, ctypes.byref(m), ctypes.c_size_t(16), ctypes.c_long(t), 0o4000); w.append(same("msg", (n, m.t, m.d), (16, t, d)))
if qd >= 0:
    buf = ctypes.create_string_buffer(8192); pr = ctypes.c_uint(); n = libc.mq_receive(qd, buf, ctypes.c_size_t(8192), ctypes.byref(pr)); w.append(same("mq", (buf.raw[:max(n, 0)], pr.value), (b"urgent", 30)))
answer(w)

# A lease that is being broken: its holder was told, and has yet to give it up.
#: file lock | lease, being broken by another process that waits | kept
#: file lock | lease, being broken: SIGIO to its holder | rehearsed: told once more to give up a lease
import fcntl, time
F_SETLEASE, F_GETLEASE = 1024, 1025
limit = int(open("/proc/sys/fs/lease-break-time").read())  # then the kernel takes it away
told = []
signal.signal(signal.SIGIO, lambda *_: told.append(time.monotonic()))
open("/tmp/written", "w").close()
f = os.open("/tmp/written", os.O_RDWR)
fcntl.fcntl(f, F_SETLEASE, fcntl.F_WRLCK)
done, out = os.pipe()
breaker = os.fork()
if breaker == 0:
    os.close(f); open("/tmp/written").close()  # waits until the lease is given up
    os.write(out, b"opened"); os._exit(0)
while not told:
    time.sleep(0.01)
before = fcntl.fcntl(f, F_GETLEASE)
ready()
os.set_blocking(done, False)
now = [same("the lease", fcntl.fcntl(f, F_GETLEASE), before), same("the other process", tried(lambda: os.read(done, 16)), "Resource temporarily unavailable")]
if time.monotonic() - told[0] > limit:
    now = []  # it may be gone by itself
fcntl.fcntl(f, F_SETLEASE, fcntl.F_UNLCK)
os.waitpid(breaker, 0)
answer(now or [True])

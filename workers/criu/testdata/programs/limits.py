# Limits that are close to what a process has used, or below.
#: process | limits of CPU time, address space, data, files and processes, below what it has too | kept
import resource
def cpu(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
def space(_):
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 20), used + (2 << 20)))
def files(_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)); resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)); resource.setrlimit(resource.RLIMIT_DATA, (1 << 12, 1 << 12)); resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
kids = {}
for name, limit in (("cpu", lambda: cpu(30)), ("less", lambda: cpu(1)), ("space", lambda: space(0)), ("files", lambda: files(0))):
    r, w = os.pipe()
    kids[name] = os.fork()
    if kids[name] == 0:
        limit(); os.write(w, b"1"); os.close(r); os.close(w)
        signal.sigwait({signal.SIGUSR1})
        os._exit(0)
    os.read(r, 1); os.close(r); os.close(w)
limits = lambda: {n: [l.split()[-3:-1] if l.split()[-1].isalpha() else l.split()[-2:] for l in open("/proc/%d/limits" % p)] for n, p in kids.items()}
before = limits()
ready()
w = compare(before, limits())
for p in kids.values(): os.kill(p, signal.SIGUSR1)
answer(w + [same(n, os.waitpid(p, 0)[1], 0) for n, p in kids.items()])

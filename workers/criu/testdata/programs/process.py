# Name, affinity, niceness, scheduling policy, oom_score_adj, umask, limits, prctl flags, groups, working directory.
#: process | name, affinity, nice, umask, limits, prctl flags, groups, working directory | kept
#: process | no_new_privs, parent's death signal | warned: if that is for Landlock, its rules don't hold after a resume
import ctypes, os, resource
libc = ctypes.CDLL(None)
libc.prctl(15, b"renamed", 0, 0, 0)
libc.prctl(1, 10, 0, 0, 0)    # PR_SET_PDEATHSIG
libc.prctl(29, 50000, 0, 0, 0)  # PR_SET_TIMERSLACK
libc.prctl(38, 1, 0, 0, 0)    # PR_SET_NO_NEW_PRIVS
os.sched_setaffinity(0, {0})
os.nice(5)
os.umask(0o027)
os.makedirs("/tmp/here"); os.chdir("/tmp/here")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
# CRIU's parasite sends descriptors, which fails with ETOOMANYREFS while the user has more of
# them under way in sockets than this, in all sessions together.
resource.setrlimit(resource.RLIMIT_NOFILE, (2345, 3456))

def state():
    umask = os.umask(0); os.umask(umask)
    death = ctypes.c_int()
    libc.prctl(2, ctypes.byref(death), 0, 0, 0)
    return {
        "name": open("/proc/self/comm").read().strip(), "affinity": os.sched_getaffinity(0), "nice": os.nice(0),
        "umask": umask, "directory": os.getcwd(), "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "core": resource.getrlimit(resource.RLIMIT_CORE), "death": death.value, "slack": libc.prctl(30, 0, 0, 0, 0),
        "no new privileges": libc.prctl(39, 0, 0, 0, 0), "policy": os.sched_getscheduler(0), "groups": os.getgroups(),
        "capabilities": [l for l in open("/proc/self/status") if l.startswith("Cap")],
    }

before = state()
ready()
after = state()
answer(["%s %s, was %s" % (k, after[k], before[k]) for k in before if after[k] != before[k]])

# What prctl and its like set for processes and threads.
#: process | personality, core dump filter, MDWE, merging of pages, THP, dumpable, securebits, oom_score_adj | kept
#: thread | timer slack, I/O priority, nice, policy, user, groups | kept
#: process | CPU time used, start time | changed: they start again
import ctypes, threading, resource
def prctl(n, a=0, b=0, c=0, d=0): return libc.prctl(n, ctypes.c_ulong(a), ctypes.c_ulong(b), ctypes.c_ulong(c), ctypes.c_ulong(d))
def sysc(n, *a): return libc.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
prctl(4, 0)           # dumpable
prctl(8, 1)           # keepcaps
rc = {}
rc["secbits"] = prctl(28, 0x15)
rc["ambient"] = 0
prctl(41, 1)  # thp disable
prctl(36, 1)
rc["mdwe"] = prctl(65, 1)
rc["memmerge"] = prctl(67, 1)
rc["mcekill"] = prctl(33, 1, 1)
rc["spec"] = prctl(53, 0, 2)
rc["tsc"] = 0
rc["ptracer"] = prctl(0x59616d61, 1)
rc["uclamp"] = 0
libc.personality(0x0040000)
os.setpriority(os.PRIO_PROCESS, 0, 3)
rc["ioprio"] = sysc(251, 1, 0, (3 << 13) | 2)
os.sched_setscheduler(0, os.SCHED_BATCH | 0x40000000, os.sched_param(0))
open("/proc/self/coredump_filter", "w").write("0x7f")
open("/proc/self/oom_score_adj", "w").write("300")
rc["autogroup"] = 0
rc["timerslack"] = prctl(29, 77777)
os.setgroups([7, 8, 9])
resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, 1 << 23))
resource.setrlimit(resource.RLIMIT_SIGPENDING, (100, 200))
# thread with own attrs
go, done, started = threading.Event(), threading.Event(), threading.Event()
tstate = {}
def tcollect():
    s = {l.split(":")[0]: l.split(":", 1)[1].strip() for l in open("/proc/thread-self/status")}
    return {"T" + k: s[k] for k in ("Name", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed", "SigBlk", "SigPnd", "Seccomp_filters")} | {
        "Tnice": os.getpriority(os.PRIO_PROCESS, 0), "Tio": sysc(252, 1, 0), "Tpol": os.sched_getscheduler(0), "Tslack": prctl(30), "Tsecbits": prctl(27), "Tkeep": prctl(7)}
class Th(threading.Thread):
    def run(self):
        prctl(15, ctypes.cast(ctypes.c_char_p(b"odd one"), ctypes.c_void_p).value)
        prctl(29, 4242)
        os.setpriority(os.PRIO_PROCESS, 0, 9)
        sysc(251, 1, 0, (2 << 13) | 6)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        sysc(113+0, 0, 0) if False else None
        sysc(116, 1, (ctypes.c_int * 1)(77))    # setgroups on this thread only
        sysc(114, -1, 55)     # setregid egid... 
        sysc(113, -1, 44)  # setreuid euid this thread only
        tstate["b"] = tcollect(); started.set(); go.wait(); tstate["a"] = tcollect(); done.set()
t = Th(); t.start(); started.wait()
def collect():
    out = {"dumpable": prctl(3), "keepcaps": prctl(7), "secbits": prctl(27), "thp": prctl(42), "mdwe": prctl(66), "memmerge": prctl(68), "mce": prctl(34), "spec": prctl(52, 0), "specib": prctl(52, 1),
      "slack": prctl(30), "personality": libc.personality(-1), "nice": os.getpriority(os.PRIO_PROCESS, 0), "ioprio": sysc(252, 1, 0), "policy": os.sched_getscheduler(0),
      "coredump_filter": open("/proc/self/coredump_filter").read(), "oom": open("/proc/self/oom_score_adj").read(), "groups": os.getgroups(), "limits": [resource.getrlimit(i) for i in range(16)],
      "comm": open("/proc/self/comm").read(), "auxv": open("/proc/self/auxv", "rb").read(), "cmdline": open("/proc/self/cmdline").read(), "exe": os.readlink("/proc/self/exe"), "environ": open("/proc/self/environ").read(),
      "loginuid": tried(lambda: open("/proc/self/loginuid").read()), "sessionid": tried(lambda: open("/proc/self/sessionid").read()), "root": os.readlink("/proc/self/root"),
      "iflusher": prctl(58), "tsc": 0, "umask": [l for l in open("/proc/self/status") if l.startswith("Umask")], "starttime": 0}
    st = {l.split(":")[0]: l.split(":", 1)[1].strip() for l in open("/proc/self/status")}
    for k in ("Tgid", "Ngid", "Groups", "NStgid", "NSpgid", "NSsid", "Kthread", "VmLck", "VmPin", "HugetlbPages", "CoreDumping", "THP_enabled", "untag_mask", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Speculation_Store_Bypass", "SpeculationIndirectBranch", "Cpus_allowed", "Mems_allowed", "x86_Thread_features"):
        out["st." + k] = st.get(k)
    a = ctypes.create_string_buffer(56)
    sysc(315, 0, ctypes.cast(a, ctypes.c_void_p).value, 56, 0)
    out["sched_attr"] = a.raw
    tm = os.times(); ru = resource.getrusage(resource.RUSAGE_SELF)
    return out
before = collect()
rep = [k for k, v in rc.items() if v < 0]
if rep: print("not set:", rep)
cpu = os.times()[:4]; ru = resource.getrusage(0); st0 = open("/proc/self/stat").read().split()[21]
ready()
w = compare(before, collect())
go.set(); done.wait(); w += compare(tstate["b"], tstate["a"])
answer(w)

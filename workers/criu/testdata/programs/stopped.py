# A child that was stopped before it ever returned from the fork.
#: process | stopped before its first instruction | kept
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    child = os.fork()
    if child == 0:
        os._exit(7)
    tried(lambda: os.kill(child, signal.SIGSTOP))
    if os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]) and open("/proc/%d/syscall" % child).read().startswith("56 "):
        break
    tried(lambda: os.kill(child, signal.SIGKILL))
    tried(lambda: os.waitpid(child, 0))
ready()
os.kill(child, signal.SIGCONT)
answer([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 or "its status"])

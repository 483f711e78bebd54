#! capabilities
# What a program makes around or beside itself and CRIU can't capture: the program runs on.
#: namespace | of pids, made inside | refused: pid namespace of its own
#: namespace | of System V IPC, made inside | refused: ipc namespace of its own
#: namespace | of the host's name, made inside | refused: uts namespace of its own
#: namespace | of cgroups, made inside | refused: cgroup namespace of its own
#: namespace | of clocks, made inside | refused: time namespace of its own
#: namespace | of networks, made inside | refused: net namespace of its own
#: process | traced by another | refused: traced by python3
#: TCP | MPTCP | refused: MPTCP socket
#: fanotify | mark of a whole file system | refused: fanotify of a whole file system
import socket
done, tell = os.pipe()
def child(do):
    pid = os.fork()
    if pid == 0:
        do()
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(done, 1)
    return pid
def unshare(flag, then=lambda: None):
    child(lambda: (call("unshare", flag), then()))
def forked():
    if os.fork() != 0:
        while True: signal.pause()
CLONE_NEWPID, CLONE_NEWTIME = 0x20000000, 0x80
unshare(CLONE_NEWPID, forked)
unshare(CLONE_NEWTIME, forked)
for flag in (0x08000000, 0x04000000, 0x02000000, 0x40000000):  # ipc, uts, cgroup, net
    unshare(flag)
traced = os.fork()
if traced == 0:
    libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(traced, 0)
mptcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
marks = call("syscall", ctypes.c_long(300), 0, os.O_RDONLY)
call("syscall", ctypes.c_long(301), marks, 0x1 | 0x100, ctypes.c_ulong(0x20), -100, b"/")  # FAN_MARK_FILESYSTEM
ready()
answer([True])

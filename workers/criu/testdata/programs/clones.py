#! capabilities
# What threads have apart from their process, and processes share by clone.
#: thread | open files of its own | refused: (its files) has open files of its own
#: thread | working directory of its own | refused: (its directory) has a working directory, root or umask of its own
#: thread | network of its own | refused: (its network) is in a net namespace of its own
#: process | shares its working directory with another | refused: it shares its working directory with python3
#: process | shares its memory with another, as after vfork | refused: it shares its memory with
import threading
CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_VFORK, CLONE_NEWNET = 0x100, 0x200, 0x400, 0x4000, 0x40000000
started = threading.Semaphore(0)
end = threading.Event()
def thread(name, flags, then=lambda: None):
    def run():
        libc.prctl(15, name)
        call("unshare", flags)
        then()
        started.release()
        end.wait()
    threading.Thread(target=run).start()
    started.acquire()
os.mkdir("/tmp/apart")
thread(b"its files", CLONE_FILES)
thread(b"its directory", CLONE_FS, lambda: os.chdir("/tmp/apart"))
thread(b"its network", CLONE_NEWNET)
if libc.syscall(ctypes.c_long(56), ctypes.c_ulong(CLONE_FS | signal.SIGCHLD), 0, 0, 0, 0) == 0:  # clone
    while True: signal.pause()
started_r, started_w = os.pipe()
# vfork's child: in C, for it shares the stack.
child = b"""
#include <unistd.h>
int main(void) { if (vfork() == 0) { char c; write(%d, "x", 1); read(%d, &c, 1); _exit(0); } }
"""
go_r, go_w = os.pipe()
import subprocess
open("/tmp/vfork.c", "wb").write(child % (started_w, go_r))
subprocess.check_call(["gcc", "-w", "-o", "/tmp/vfork", "/tmp/vfork.c"])
subprocess.Popen(["/tmp/vfork"], pass_fds=(started_w, go_r))
os.read(started_r, 1)
ready()
answer([])

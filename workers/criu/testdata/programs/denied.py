# A program whose filter denies what restores and captures need.
#: process | seccomp filter that denies or kills for ptrace, setns, unshare, clone3, mount, keyctl | kept
#: process | no_new_privs, which Landlock needs | warned: if that is for Landlock, its rules don't hold after a resume
import struct
def filter(*rules):
    # Each is a number of a system call and what it gives; all else is allowed.
    code = struct.pack("HBBI", 0x20, 0, 0, 0)
    for nr, action in rules:
        code += struct.pack("HBBI", 0x15, 0, 1, nr) + struct.pack("HBBI", 0x06, 0, 0, action)
    code += struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
    buf = ctypes.create_string_buffer(code, len(code))
    prog = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buf))
    call("prctl", 38, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    call("prctl", 22, ctypes.c_ulong(2), prog, ctypes.c_ulong(0), ctypes.c_ulong(0))
kill, eperm = 0x80000000, 0x00050001
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
r, w = os.pipe()
kid = os.fork()
if kid == 0:
    # ptrace, setns, unshare, clone3, mount, io_uring_setup, keyctl
    filter((101, kill), (308, kill), (272, eperm), (435, 0x00050026), (165, eperm), (425, eperm), (250, eperm), (157, eperm))
    os.write(w, b"1")
    signal.sigwait({signal.SIGUSR1})
    os._exit(0 if tried(lambda: call("unshare", 0)) .endswith("Operation not permitted") else 1)
os.read(r, 1)
status = lambda: [l for l in open("/proc/%d/status" % kid) if l.startswith(("Seccomp", "NoNewPrivs"))]
before = status()
ready()
w = [same("status", status(), before)]
os.kill(kid, signal.SIGUSR1)
answer(w + [same("filter", os.waitpid(kid, 0)[1], 0)])

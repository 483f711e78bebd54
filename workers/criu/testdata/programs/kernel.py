#! capabilities and system calls
# What the kernel keeps and gives to no other program: the program runs on.
#: io_uring | open | refused: io_uring
#: perf event | open | refused: perf event
#: bpf | map, open | refused: bpf-map
#: userfaultfd | open | refused: userfaultfd
#: memfd | secret (memfd_secret) | refused: memfd_secret
#: Landlock | rules, open | refused: landlock-ruleset
#: POSIX message queue | open | refused: /queue
#: seccomp | notifications, open | refused: seccomp notify
#: socket | vsock | refused: vsock socket
#: socket | AF_XDP | refused: XDP socket
#: unix socket | its file, opened with O_PATH | refused: the file of a unix socket, opened with O_PATH
#: FIFO | opened with O_PATH | refused: FIFO opened with O_PATH
#: terminal | line discipline | refused: with line discipline 27
import fcntl, socket, termios
text = ctypes.create_string_buffer
def sysc(number, *args): return call("syscall", ctypes.c_long(number), *args)
sysc(425, 4, text(120))                                                      # io_uring_setup
sysc(298, text(struct.pack("IIQ", 1, 112, 0) + b"\0" * 96), 0, -1, -1, 0)    # perf_event_open
sysc(321, 0, text(struct.pack("IIII", 2, 4, 4, 1)), 16)                      # bpf
sysc(323, 0), sysc(447, 0), sysc(444, text(struct.pack("Q", 1)), 8, 0)       # userfaultfd, memfd_secret, Landlock
call("mq_open", b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None)
class Filter(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filters", ctypes.POINTER(Filter))]
notify = (Filter * 4)(Filter(0x20, 0, 0, 0), Filter(0x15, 0, 1, 9999), Filter(6, 0, 0, 0x7fc00000), Filter(6, 0, 0, 0x7fff0000))
sysc(317, 1, 8, ctypes.byref(Program(4, notify)))
sockets = [socket.socket(40, socket.SOCK_STREAM), socket.socket(44, socket.SOCK_RAW)]
named = socket.socket(socket.AF_UNIX)
named.bind("/tmp/named")
os.mkfifo("/tmp/fifo")
paths = [os.open(p, os.O_PATH) for p in ("/tmp/named", "/tmp/fifo")]
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSETD, struct.pack("i", 27))                   # N_NULL
ready()
answer([])

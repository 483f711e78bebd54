# What can't be captured: the program runs on.
#: TCP | urgent data | refused: TCP socket with urgent data
#: unix socket | urgent data | refused: unix socket with urgent data
#: unix socket | data in a connection that isn't accepted | refused: unix socket with data that hasn't been accepted yet
#: unix socket | messages with credentials | refused: unix socket with credentials in its queue
#: pipe | packets (O_DIRECT) | refused: pipe of packets
#: directory | watched by F_NOTIFY | refused: directory watched by F_NOTIFY
#: directory | /proc of a process | refused: : /proc/
#: process | limit of its address space reached | refused: its address space is at its limit
#: process | as many open files as it may have | refused: it has as many open files as it may
import fcntl, resource, socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.send(b"!", socket.MSG_OOB)
while "!" != tried(lambda: server.recv(1, socket.MSG_OOB | socket.MSG_PEEK).decode()):
    pass
a, b = socket.socketpair()
a.send(b"!", socket.MSG_OOB)
waiting = socket.socket(socket.AF_UNIX)
waiting.bind("\0waiting")
waiting.listen(1)
early = socket.socket(socket.AF_UNIX)
early.connect("\0waiting")
early.send(b"early")
c, d = socket.socketpair()
d.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
c.send(b"by whom?")
r, w = os.pipe2(os.O_DIRECT)
os.mkdir("/tmp/watched-dir")
watched = os.open("/tmp/watched-dir", os.O_RDONLY)
fcntl.fcntl(watched, 1026, 0x80000004)  # F_NOTIFY, DN_CREATE | DN_MULTISHOT
process = os.open("/proc/%d" % os.getpid(), os.O_RDONLY)
full, start = os.pipe()
if os.fork() == 0:
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used, used))
    os.write(start, b"1")
    while True: signal.pause()
if os.fork() == 0:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    os.write(start, b"2")
    while True: signal.pause()
os.read(full, 1), os.read(full, 1)
ready()
answer([server.recv(1, socket.MSG_OOB) == b"!" or "urgent data", d.recv(9) == b"by whom?" or "data"])

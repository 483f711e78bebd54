# A process that may open few files, while its user has many more in flight in unix sockets.
#: process | limit of open files below the files that its user has in flight in unix sockets | kept
import array, resource, socket
sender, receiver = socket.socketpair()
pipe = os.pipe()
sender.sendmsg([b"many"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0]] * 64))])
r, w = os.pipe()
ask_r, ask_w = os.pipe()
if os.fork() == 0:
    for s in (sender, receiver):
        s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    os.write(w, b"limited")
    while True:
        os.read(ask_r, 1)
        os.write(w, b"%d %d" % resource.getrlimit(resource.RLIMIT_NOFILE))
os.read(r, 64)
ready()
os.write(ask_w, b"?")
limit = os.read(r, 64)
data, parts, _, _ = receiver.recvmsg(64, socket.CMSG_SPACE(64 * 4))
files = array.array("i", parts[0][2])
os.write(pipe[1], b"through it")
answer([same("limit", limit, b"16 16"), same("files", len(files), 64), same("data", data, b"many"), same("pipe", os.read(files[63], 64), b"through it")])

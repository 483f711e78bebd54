# Descriptors of unusual kinds, and the settings that belong to them.
#: file | opened with O_PATH: file, directory, symbolic link, removed file | kept
#: directory | removed, open; removed, working directory; read in part | kept
#: pipe | size (F_SETPIPE_SZ), owner and signal (F_SETOWN_EX, F_SETSIG), O_ASYNC | kept
#: pipe, socket | page of a file by splice or sendfile | kept
#: process | root by chroot, of a child | kept
#: descriptor | number, close-on-exec, shared offset, O_SYNC, O_NOATIME, /proc/self/mem, own namespaces | kept
import fcntl, socket, time
os.makedirs("/tmp/d/gone")
open("/tmp/f", "w").write("content")
open("/tmp/g", "w").write("ghost")
os.symlink("/tmp/f", "/tmp/link")
path = {"file": os.open("/tmp/f", os.O_PATH), "directory": os.open("/tmp/d", os.O_PATH), "link": os.open("/tmp/link", os.O_PATH | os.O_NOFOLLOW), "removed": os.open("/tmp/g", os.O_PATH)}
os.unlink("/tmp/g")
gone = os.open("/tmp/d/gone", os.O_RDONLY)
os.rmdir("/tmp/d/gone")
F_SETPIPE_SZ, F_GETPIPE_SZ, F_SETOWN_EX, F_GETOWN_EX, F_SETSIG, F_GETSIG = 1031, 1032, 15, 16, 10, 11
large, small, pair = os.pipe(), os.pipe(), socket.socketpair()
while True:  # the kernel refuses while all pipes of root are large, as when criu dumps another session
    try: fcntl.fcntl(large[1], F_SETPIPE_SZ, 1 << 18); break
    except PermissionError: time.sleep(0.05)
fcntl.fcntl(small[0], F_SETPIPE_SZ, 4096)
fcntl.fcntl(large[0], F_SETOWN_EX, struct.pack("ii", 2, os.getpgrp()))  # F_OWNER_PGRP
fcntl.fcntl(large[0], F_SETSIG, 34)
fcntl.fcntl(large[0], fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
fcntl.fcntl(pair[0], fcntl.F_SETOWN, os.getpid())
memory, status = os.open("/proc/self/mem", os.O_RDWR), os.open("/proc/self/status", os.O_RDONLY)
spaces = {kind: os.open("/proc/self/ns/" + kind, os.O_RDONLY) for kind in ("net", "mnt")}
sync = os.open("/tmp/f", os.O_RDWR | os.O_SYNC | os.O_NOATIME)
low = os.open("/tmp/f", os.O_RDONLY)
high = fcntl.fcntl(low, fcntl.F_DUPFD, 900)
os.lseek(high, 3, os.SEEK_SET)
source, spliced, sent = os.open("/tmp/f", os.O_RDONLY), os.pipe(), socket.socketpair()
os.splice(source, spliced[1], 7)
os.sendfile(sent[0].fileno(), source, 0, 7)
for i in range(300):
    open("/tmp/d/%03d" % i, "w")
listed, entries = os.open("/tmp/d", os.O_RDONLY), ctypes.create_string_buffer(1024)
def some():
    """Some names of the directory, in order."""
    n, at, names = call("syscall", ctypes.c_long(217), listed, entries, 1024), 0, []
    while at < n:
        size, = struct.unpack_from("H", entries, at + 16)
        names.append(entries.raw[at + 19:at + size].split(b"\0")[0])
        at += size
    return names
seen = some()
told, asked = os.pipe(), os.pipe()
answers = os.pipe()
def child(prepare, state):
    if os.fork() == 0:
        prepare()
        before = state()
        os.write(told[1], b"1")
        os.read(asked[0], 1)
        os.write(answers[1], b"=" if state() == before else b"!")
        while True: signal.pause()
    os.read(told[0], 1)
def leave():
    os.mkdir("/tmp/left"); os.chdir("/tmp/left"); os.rmdir("/tmp/left")
child(leave, lambda: (os.stat(".").st_nlink, os.readlink("/proc/self/cwd"), tried(lambda: open("x", "w"))))
def change():
    os.makedirs("/tmp/root/in"); os.chroot("/tmp/root"); os.chdir("/in")
child(change, lambda: (os.listdir("/"), os.getcwd()))
def state():
    flags = lambda fd: oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~0o100000)
    owner = lambda fd: (struct.unpack("ii", fcntl.fcntl(fd, F_GETOWN_EX, b"\0" * 8)), fcntl.fcntl(fd, F_GETSIG))
    own = {"O_PATH " + k: (flags(fd), os.readlink("/proc/self/fd/%d" % fd), os.fstat(fd).st_mode, os.fstat(fd).st_nlink) for k, fd in path.items()}
    own.update({kind: os.readlink("/proc/self/fd/%d" % fd) == os.readlink("/proc/self/ns/" + kind) for kind, fd in spaces.items()})
    own.update({
        "removed file": open("/proc/self/fd/%d" % path["removed"]).read(), "removed directory": (flags(gone), os.listdir(gone), os.fstat(gone).st_nlink),
        "sizes": (fcntl.fcntl(large[0], F_GETPIPE_SZ), fcntl.fcntl(small[0], F_GETPIPE_SZ)), "owners": (owner(large[0]), owner(pair[0]), flags(large[0])),
        "memory": len(os.pread(memory, 10, ctypes.addressof(entries))), "status": os.pread(status, 5, 0), "sync": flags(sync),
        "offset": (os.lseek(low, 0, os.SEEK_CUR), fcntl.fcntl(low, fcntl.F_GETFD), fcntl.fcntl(high, fcntl.F_GETFD)),
    })
    return own
before = state()
ready()
wrong = compare(before, state())
wrong += [same("spliced", os.read(spliced[0], 9), b"content"), same("sent", sent[1].recv(9), b"content")]
while names := some():
    seen += names
wrong.append(same("names", (len(seen), len(set(seen))), (302, 302)))
os.write(asked[1], b"12")
wrong.append(same("children", os.read(answers[0], 1) + os.read(answers[0], 1), b"=="))
answer(wrong)

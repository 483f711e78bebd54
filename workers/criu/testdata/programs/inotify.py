# A watch on a symbolic link itself, and one that ends with its first event.
#: inotify | on a symbolic link; IN_ONESHOT, IN_EXCL_UNLINK | kept
import ctypes, os, re, struct
IN_ATTRIB, IN_CREATE, IN_EXCL_UNLINK, IN_DONT_FOLLOW, IN_ONESHOT = 0x4, 0x100, 0x04000000, 0x02000000, 0x80000000
IN_IGNORED = 0x8000
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("/tmp/watched")
open("/tmp/target", "w").close()
os.symlink("target", "/tmp/link")
fd = libc.inotify_init1(os.O_NONBLOCK)
link = libc.inotify_add_watch(fd, b"/tmp/link", IN_ATTRIB | IN_DONT_FOLLOW)
folder = libc.inotify_add_watch(fd, b"/tmp/watched", IN_CREATE | IN_ONESHOT | IN_EXCL_UNLINK)
assert link > 0 and folder > 0

def masks():
    lines = [l for l in open("/proc/self/fdinfo/%d" % fd) if l.startswith("inotify")]
    return sorted((re.search(r"wd:(\S+)", l)[1], re.search(r" mask:(\S+)", l)[1]) for l in lines)

def events():
    out = []
    try:
        data = os.read(fd, 4096)
    except BlockingIOError:
        return out
    while data:
        wd, mask, _, n = struct.unpack("iIII", data[:16])
        out.append((wd, mask))
        data = data[16 + n:]
    return out

before = masks()
ready()
seen = [masks() == before, events()]
os.utime("/tmp/target")
seen.append(events())
os.utime("/tmp/link", follow_symlinks=False)
seen.append(events())
open("/tmp/watched/one", "w").close()
open("/tmp/watched/two", "w").close()
seen.append(events())
want = [True, [], [], [(link, IN_ATTRIB)], [(folder, IN_CREATE), (folder, IN_IGNORED)]]
answer([seen == want or "saw %s, want %s" % (seen, want)])

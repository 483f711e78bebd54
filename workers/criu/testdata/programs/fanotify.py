#! capabilities
# Marks of fanotify on a directory and on a mount.
#: fanotify | mark of a directory and what is in it, of a mount | kept
FAN_NONBLOCK, FAN_MARK_ADD, FAN_MARK_MOUNT = 0x2, 0x1, 0x10
FAN_CLOSE_WRITE, FAN_OPEN, FAN_EVENT_ON_CHILD = 0x8, 0x20, 0x08000000
os.mkdir("/tmp/watched"); open("/tmp/watched/file", "w").close()
def group(flags, mask, path):
    fd = call("syscall", ctypes.c_long(300), FAN_NONBLOCK, os.O_RDONLY)  # fanotify_init
    call("syscall", ctypes.c_long(301), fd, FAN_MARK_ADD | flags, ctypes.c_ulong(mask), -100, path)  # fanotify_mark
    return fd
inode, mount = group(0, FAN_OPEN | FAN_EVENT_ON_CHILD, b"/tmp/watched"), group(FAN_MARK_MOUNT, FAN_CLOSE_WRITE, b"/")
def events(fd):
    """The files that events are of, with what happened."""
    found = []
    data = tried(lambda: os.read(fd, 4096))
    while data and not isinstance(data, str):
        length, mask, of = struct.unpack("IBBHQi", data[:20])[0], *struct.unpack("Qi", data[8:20])
        found.append((os.readlink("/proc/self/fd/%d" % of), mask))
        os.close(of)
        data = data[length:]
    return found
ready()
events(inode), events(mount)
open("/tmp/watched/file").close()
open("/tmp/other", "w").close()
answer([same("directory", events(inode), [("/tmp/watched/file", FAN_OPEN)]), same("mount", events(mount), [("/tmp/other", FAN_CLOSE_WRITE)])])

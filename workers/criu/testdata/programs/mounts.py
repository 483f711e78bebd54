#! capabilities
# Mounts that a session has made itself.
#: mount | tmpfs with files, bind mount, read-only one, proc, mqueue, devpts | kept
def mount(source, at, kind, flags=0, data=None):
    os.makedirs(at, exist_ok=True)
    call("mount", source, at.encode(), kind, ctypes.c_ulong(flags), data)
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND = 1, 2, 32, 4096
mount(b"memory", "/tmp/m/tmpfs", b"tmpfs", 0, b"size=1m")
open("/tmp/m/tmpfs/file", "w").write("in memory")
held = open("/tmp/m/tmpfs/held", "w+")
held.write("open")
held.flush()
os.mkdir("/tmp/source")
open("/tmp/source/file", "w").write("bound")
mount(b"/tmp/source", "/tmp/m/bind", None, MS_BIND)
mount(b"/tmp/source", "/tmp/m/ro", None, MS_BIND)
mount(None, "/tmp/m/ro", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)
mount(b"proc", "/tmp/m/proc", b"proc")
mount(b"mqueue", "/tmp/m/mqueue", b"mqueue")
mount(b"devpts", "/tmp/m/pts", b"devpts", 0, b"newinstance")
def state():
    lines = [l.split() for l in open("/proc/self/mountinfo") if " /tmp/m/" in l]
    held.seek(0)
    return {
        "mounts": sorted((l[3], l[4], l[5], l[l.index("-") + 1]) for l in lines), "tmpfs": open("/tmp/m/tmpfs/file").read(), "held": held.read(),
        "bind": open("/tmp/m/bind/file").read(), "read only": tried(lambda: open("/tmp/m/ro/file", "w")), "size": os.statvfs("/tmp/m/tmpfs").f_blocks,
        "proc": os.path.exists("/tmp/m/proc/self/stat"),
    }
before = state()
ready()
answer(compare(before, state()))

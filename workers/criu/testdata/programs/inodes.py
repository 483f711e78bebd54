# Inode numbers: of files that were made, renamed, linked, copied up from below; of directories.
#: file of the private layer | inode number | kept
#: file | device number (st_dev) | changed: another number
#: file of the private layer | inode number of an open one without a name | changed: another number
import os, shutil
os.makedirs("/srv/made/below")
open("/srv/made/file", "w").close()
open("/srv/made/old", "w").close()
os.rename("/srv/made/old", "/srv/made/renamed")
os.link("/srv/made/file", "/srv/made/link")
os.symlink("file", "/srv/made/soft")
os.mkfifo("/srv/made/fifo")
os.makedirs("/srv/made/moved/sub")
os.rename("/srv/made/moved", "/srv/made/there")
os.utime("/etc/passwd")
open("/etc/hostname", "a").close()
shutil.copy("/etc/group", "/etc/group.new")
os.rename("/etc/group.new", "/etc/group")
held = open("/srv/made/held", "w+")
open("/srv/made/hole", "w").close()
deleted = open("/srv/made/deleted", "w+")
deleted.write("content"); deleted.flush()
os.unlink("/srv/made/deleted")
os.unlink("/srv/made/hole")  # whose number is free, and lower
number = os.fstat(deleted.fileno()).st_ino

def numbers():
    paths = ["/etc/passwd", "/etc/hostname", "/etc/group", "/etc", "/srv"]
    for d, dirs, files in os.walk("/srv/made"):
        paths += [d] + [os.path.join(d, f) for f in dirs + files]
    seen = {p: os.lstat(p).st_ino for p in paths}
    seen["open"] = os.fstat(held.fileno()).st_ino
    return seen
before = numbers()
ready()
after = numbers()
deleted.seek(0)
answer([before[p] == after.get(p) or "%s: %s, was %s" % (p, after.get(p), before[p]) for p in before] + [
    after["open"] == after["/srv/made/held"] or "open file",
    len(os.listdir("/srv/made")) == len([p for p in after if p.startswith("/srv/made/") and p.count("/") == 3]) or "listed",
    deleted.read() == "content" or "deleted file",
    len({os.stat(p).st_dev for p in ["/srv", "/etc/passwd", "/srv/made/file"]}) == 1 or "the files have several devices",
    os.fstat(deleted.fileno()).st_ino != number or "the number of the deleted file stays",
])

# Names of unix sockets whose files were renamed or removed after bind.
#: unix socket | file removed, replaced by another file | kept
#: unix socket | file renamed, linked to another name | warned: is bound to its first name again
import socket
def listener(path):
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(4); s.settimeout(5)
    return s
os.makedirs("/tmp/names/other")
moved = listener("/tmp/names/before"); os.rename("/tmp/names/before", "/tmp/names/after")
away = listener("/tmp/names/away"); os.rename("/tmp/names/away", "/tmp/names/other/away")
removed = listener("/tmp/names/removed"); os.unlink("/tmp/names/removed")
replaced = listener("/tmp/names/replaced"); os.unlink("/tmp/names/replaced"); open("/tmp/names/replaced", "w").write("a file")
linked = listener("/tmp/names/linked"); os.link("/tmp/names/linked", "/tmp/names/link"); os.unlink("/tmp/names/linked")
def reaches(path, s):
    c = socket.socket(socket.AF_UNIX)
    def f():
        c.connect(path); a, _ = s.accept(); c.send(b"hello"); return a.recv(9)
    return tried(f)
def state():
    return {"content": tried(lambda: open("/tmp/names/replaced").read()), "names": [s.getsockname() for s in (moved, away, linked, removed, replaced)],
        "removed": reaches("/tmp/names/removed", removed), "there": [os.path.exists("/tmp/names/" + n) for n in ("removed", "linked", "after", "link", "other/away")]}
through = [reaches("/tmp/names/" + n, s) for n, s in (("after", moved), ("other/away", away), ("link", linked))]
before = state()
ready()
answer([same("reached before", through, [b"hello"] * 3)] + compare(before, state()))

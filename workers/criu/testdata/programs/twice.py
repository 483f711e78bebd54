# Two unix sockets that were bound to one path, one after the other.
#: unix socket | two of one path | kept
import socket
def listener():
    s = socket.socket(socket.AF_UNIX); s.bind("/tmp/twice"); s.listen(4); s.settimeout(5)
    return s
first = listener(); os.unlink("/tmp/twice"); second = listener()
def reaches(s):
    c = socket.socket(socket.AF_UNIX); c.connect("/tmp/twice"); a, _ = s.accept(); c.send(b"hello"); return a.recv(9) == b"hello"
ready()
answer([tried(lambda: reaches(second))])

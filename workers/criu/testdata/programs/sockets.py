# Sockets of all kinds in the states between.
#: TCP, UDP | SO_REUSEPORT, two sockets of one port | kept
#: TCP, UDP | listening on both IPv4 and IPv6; bound; connected UDP; UDP-Lite; ICMP | kept
#: unix socket | connections that aren't accepted: abstract, of a path, SOCK_SEQPACKET | kept
#: unix socket | packets (SOCK_SEQPACKET), shut down on one side, closed with data, full queue | kept
#: unix socket | empty packet behind others in the queue (SOCK_SEQPACKET, SOCK_DGRAM) | changed: it is lost, at the second capture at the latest
#: unix socket | name of who connects, not accepted yet | warned: loses the name of who connects
#: unix socket | with a socket in flight that has a pipe end in flight | warned: it is taken for one of the descriptors
import socket as S
def group(kind):
    a, b = S.socket(S.AF_INET, kind), S.socket(S.AF_INET, kind)
    for s in (a, b):
        s.setsockopt(S.SOL_SOCKET, S.SO_REUSEPORT, 1)
        s.bind(a.getsockname() if s is b else ("127.0.0.1", 0))
    return a, b
listeners, receivers = group(S.SOCK_STREAM), group(S.SOCK_DGRAM)
for l in listeners:
    l.listen(99)
both = S.socket(S.AF_INET6)
both.setsockopt(41, 26, 0)
both.bind(("::", 0))
both.listen(3)
packets = S.socketpair(S.AF_UNIX, S.SOCK_SEQPACKET)
packets[0].send(b"one")
packets[0].send(b"three")
empty = S.socketpair(S.AF_UNIX, S.SOCK_SEQPACKET)
for text in (b"one", b"", b"three"):
    empty[0].send(text)
def waiting(kind, name, client=None):
    l, c = S.socket(S.AF_UNIX, kind), S.socket(S.AF_UNIX, kind)
    l.bind(name)
    l.listen(3)
    if client:
        c.bind(client)
    c.connect(name)
    return l, c
plain, named, seq = waiting(S.SOCK_STREAM, "\0plain"), waiting(S.SOCK_STREAM, "\0named", "\0client"), waiting(S.SOCK_SEQPACKET, "/tmp/seq")
half, closed, full = S.socketpair(), S.socketpair(), S.socketpair()
half[0].shutdown(S.SHUT_WR)
closed[0].send(b"last words")
closed[0].close()
full[0].setblocking(False)
sent = 0
while not isinstance(n := tried(lambda: full[0].send(b"x" * 1000)), str):
    sent += n
connected = S.socket(S.AF_INET, S.SOCK_DGRAM)
connected.bind(("127.0.0.1", 0))
connected.connect(both.getsockname()[:0] or receivers[0].getsockname())
lite, ping, bound = S.socket(S.AF_INET, S.SOCK_DGRAM, 136), tried(lambda: S.socket(S.AF_INET, S.SOCK_DGRAM, 1)), S.socket()
lite.bind(("127.0.0.1", 0))
bound.bind(("127.0.0.1", 0))
names = lambda: [s.getsockname() for s in (*listeners, *receivers, both, connected, lite, bound)]
was = names()
carrier, passed, pipe = S.socketpair(), S.socketpair(), os.pipe()
S.send_fds(passed[0], [b"a pipe"], [pipe[0]])
os.close(pipe[0])
S.send_fds(carrier[0], [b"a socket"], [passed[1].fileno()])
ready()
wrong = [same("names", names(), was)]
for s in (*listeners, plain[0], named[0], seq[0], *receivers, packets[1], full[1]):
    s.setblocking(False)
clients = [S.create_connection(listeners[0].getsockname()) for _ in range(32)]
def accepted(l):
    n = 0
    while not isinstance(tried(l.accept), str):
        n += 1
    return n
counts = [accepted(l) for l in listeners]
wrong.append(min(counts) > 0 or "the group accepts %s" % counts)
v4 = S.create_connection(("127.0.0.1", both.getsockname()[1]))
wrong.append(same("both", both.accept()[1][0], "::ffff:127.0.0.1"))
wrong.append(same("packets", [packets[1].recv(9), packets[1].recv(9)], [b"one", b"three"]))
wrong.append(same("empty packet", [empty[1].recv(9), empty[1].recv(9)], [b"one", b"three"]))
for what, (l, c), name in (("plain", plain, ""), ("named", named, ""), ("seq", seq, "")):
    got = tried(l.accept)
    if isinstance(got, str):
        wrong.append(what + ": " + got)
        continue
    c.send(b"hello")
    wrong.append(same(what, (got[1] or "", got[0].recv(9)), (name, b"hello")))
half[1].send(b"y")
wrong.append(same("half", (half[1].recv(1), tried(lambda: half[0].send(b"x")), half[0].recv(1)), (b"", "Broken pipe", b"y")))
wrong.append(same("closed", (closed[1].recv(99), closed[1].recv(9)), (b"last words", b"")))
got = 0
while not isinstance(b := tried(lambda: full[1].recv(65536)), str):
    got += len(b)
wrong.append(same("full, read", got, sent))
connected.send(b"hi")
wrong.append(b"hi" in [tried(lambda: r.recv(9)) for r in receivers] or "no datagram")
_, fds, _, _ = S.recv_fds(carrier[1], 9, 1)
_, ends, _, _ = S.recv_fds(S.socket(fileno=fds[0]), 9, 1)
os.write(pipe[1], b"z")
wrong.append(same("in flight", os.read(ends[0], 1), b"z"))
answer(wrong)

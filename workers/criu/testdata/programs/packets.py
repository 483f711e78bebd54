# Queues of unix sockets with empty packets among others.
#: unix socket | packets after an empty one (SOCK_SEQPACKET, SOCK_DGRAM), shut down or not | kept
import socket as S
queues = []
for kind, end in ((S.SOCK_SEQPACKET, False), (S.SOCK_SEQPACKET, True), (S.SOCK_DGRAM, False)):
    a, b = S.socketpair(S.AF_UNIX, kind)
    for text in (b"one", b"", b"", b"three", b"four"):
        a.send(text)
    if end:
        a.shutdown(S.SHUT_WR)
    b.setblocking(False)
    queues.append((a, b, end))
ready()
wrong = []
for n, (a, b, end) in enumerate(queues):
    got = []
    while not isinstance(text := tried(lambda: b.recv(9)), str) and len(got) < 9:
        got.append(text)
    wrong.append(same("queue %d" % n, [text for text in got if text], [b"one", b"three", b"four"]))
answer(wrong)

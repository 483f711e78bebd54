# Test.
#: zz | zz | kept
import socket as S, fcntl
empty = S.socketpair(S.AF_UNIX, S.SOCK_SEQPACKET)
for text in (b"one", b"", b"three"):
    empty[0].send(text)
ready()
answer([True])

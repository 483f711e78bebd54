# Membership in a multicast group.
#: UDP | multicast membership | kept
import socket as S
u = S.socket(S.AF_INET, S.SOCK_DGRAM); u.setsockopt(1, 2, 1); u.bind(("", 5007))
u.setsockopt(0, 35, S.inet_aton("224.1.1.1") + S.inet_aton("127.0.0.1"))
s = S.socket(S.AF_INET, S.SOCK_DGRAM); s.setsockopt(0, 32, S.inet_aton("127.0.0.1"))
def got():
    s.sendto(b"x", ("224.1.1.1", 5007)); u.settimeout(1)
    return tried(lambda: u.recv(10))
b = got()
ready()
answer([same("multicast", got(), b)])

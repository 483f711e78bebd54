# Options of sockets of each family.
#: TCP, UDP, unix, raw, netlink | options, by getsockopt | kept
#: TCP | TCP_MAXSEG, TCP_WINDOW_CLAMP of a connection | changed: as the kernel chooses
import socket as S
def opts(s, table):
    out = {}
    for name, level, opt, size in table:
        try:
            out[name] = s.getsockopt(level, opt, size)
        except OSError as e:
            out[name] = e.strerror
    return out
SOL, TCP, IP, IP6, UDP = 1, 6, 0, 41, 17
common = [(n, SOL, v, 16) for n, v in dict(REUSEADDR=2, BROADCAST=6, KEEPALIVE=9, OOBINLINE=10, PRIORITY=12, LINGER=13, REUSEPORT=15, RCVLOWAT=18, SNDBUF=7, RCVBUF=8,
    RCVTIMEO=20, SNDTIMEO=21, BINDTODEVICE=25, ATTACH_FILTER=26, TIMESTAMP=29, PASSSEC=34, TIMESTAMPNS=35, MARK=36, TIMESTAMPING=37, RXQ_OVFL=40, WIFI=41, PEEK_OFF=42, NOFCS=43,
    LOCK_FILTER=44, SELECT_ERR_QUEUE=45, BUSY_POLL=46, ZEROCOPY=60, TXTIME=61, PREFER_BUSY_POLL=69, BUF_LOCK=72, TXREHASH=74, RCVMARK=75, DONTROUTE=5, NO_CHECK=11).items()]
tcp = [(n, TCP, v, 16) for n, v in dict(NODELAY=1, CORK=3, KEEPIDLE=4, KEEPINTVL=5, KEEPCNT=6, SYNCNT=7, LINGER2=8, DEFER_ACCEPT=9, QUICKACK=12,
    CONGESTION=13, THIN=16, USER_TIMEOUT=18, FASTOPEN=23, NOTSENT_LOWAT=25, SAVE_SYN=27, INQ=36, TX_DELAY=37).items()]
ip = [(n, IP, v, 16) for n, v in dict(TOS=1, TTL=2, HDRINCL=3, OPTIONS=4, RECVOPTS=6, RETOPTS=7, PKTINFO=8, MTU_DISCOVER=10, RECVERR=11, RECVTTL=12, RECVTOS=13, FREEBIND=15, TRANSPARENT=19,
   RECVORIGDSTADDR=20, MINTTL=21, NODEFRAG=22, CHECKSUM=23, BIND_ADDRESS_NO_PORT=24, RECVFRAGSIZE=25, RECVERR_RFC4884=26, MULTICAST_IF=32, MULTICAST_TTL=33, MULTICAST_LOOP=34, MULTICAST_ALL=49, UNICAST_IF=50, LOCAL_PORT_RANGE=51).items()]
ip6 = [(n, IP6, v, 16) for n, v in dict(V6ONLY=26, UNICAST_HOPS=16, MULTICAST_IF=17, MULTICAST_HOPS=18, MULTICAST_LOOP=19, TCLASS=67, RECVTCLASS=66, RECVPKTINFO=49, RECVHOPLIMIT=51, MTU_DISCOVER=23, RECVERR=25, FREEBIND=78, DONTFRAG=62, AUTOFLOWLABEL=70, RECVRTHDR=56,RECVHOPOPTS=53,MINHOPCOUNT=73,ADDR_PREF=72).items()]
udp = [(n, UDP, v, 16) for n, v in dict(CORK=1, ENCAP=100, NO_CHECK6_TX=101, NO_CHECK6_RX=102, SEGMENT=103, GRO=104).items()]
socks = {}
def make(name, s, tables, setopts):
    for level, opt, value in setopts:
        try:
            s.setsockopt(level, opt, value)
        except OSError as e:
            print("set", name, level, opt, e)
    socks[name] = (s, tables)
    return s
l = S.create_server(("127.0.0.1", 0))
c = S.create_connection(l.getsockname()); a, _ = l.accept()
i, tv = (lambda n: n), struct.pack("ll", 3, 500000)
base = [(SOL, 9, 1), (SOL, 10, 1), (SOL, 12, 5), (SOL, 13, struct.pack("ii", 1, 7)), (SOL, 18, 9), (SOL, 20, tv), (SOL, 21, tv), (SOL, 29, 1), (SOL, 40, 1), (SOL, 45, 1), (SOL, 60, 1), (SOL, 75, 1), (SOL,7,20000),(SOL,8,30000), (SOL, 5, 1)]
make("tcp", c, common + tcp + ip, base + [(TCP, 1, 1), (TCP, 4, 99), (TCP, 5, 44), (TCP, 6, 3), (TCP, 7, 4), (TCP, 8, 33), (TCP, 10, 60000), (TCP, 13, b"reno"), (TCP, 18, 12345), (TCP, 25, 4096), (TCP, 36, 1), (IP, 1, 0x10), (IP, 2, 77), (IP, 8, 1), (IP, 10, 2), (IP, 11, 1), (IP, 12, 1), (IP, 15, 1), (IP, 21, 5)])
make("listener", l, common + tcp + ip, base + [(TCP, 1, 1), (TCP, 4, 98), (TCP, 9, 5), (TCP, 23, 5), (TCP, 27, 1), (IP, 1, 0x10), (IP, 2, 77)])
u = S.socket(S.AF_INET, S.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
make("udp", u, common + ip + udp, base + [(SOL, 6, 1), (SOL, 11, 1), (SOL, 49, 0), (IP, 1, 0x10), (IP, 2, 77), (IP, 6, 1), (IP, 8, 1), (IP, 10, 2), (IP, 11, 1), (IP, 12, 1), (IP, 13, 1), (IP, 15, 1), (IP, 20, 1), (IP, 32, S.inet_aton("127.0.0.1")), (IP, 33, 9), (IP, 34, 0), (IP, 49, 0), (UDP, 104, 1), (UDP, 103, 500)])
u6 = S.socket(S.AF_INET6, S.SOCK_DGRAM)
make("udp6", u6, common + ip6 + udp, base + [(IP6, 26, 1), (IP6, 16, 5), (IP6, 18, 6), (IP6, 19, 0), (IP6, 67, 8), (IP6, 66, 1), (IP6, 49, 1), (IP6, 51, 1), (IP6, 25, 1), (IP6, 62, 1), (IP6,70,0)])
u6.bind(("::1", 0))
un, un2 = S.socketpair()
make("unix", un, common, base + [(SOL, 16, 1), (SOL, 42, 3)])
make("pass", un2, common + [("PASSCRED", SOL, 16, 4)], [(SOL, 16, 1)])
r = S.socket(S.AF_INET, S.SOCK_RAW, S.IPPROTO_ICMP)
make("raw", r, common + ip, base + [(IP, 3, 1)])
n = S.socket(S.AF_NETLINK, S.SOCK_RAW, 0); n.bind((0, 0))
make("netlink", n, common + [("MEMBER", 270, 9, 64), ("PKTINFO", 270, 3, 4), ("BCAST_ERR", 270, 4, 4), ("NO_ENOBUFS", 270, 5, 4), ("CAP_ACK", 270, 10, 4), ("EXT_ACK", 270, 11, 4), ("STRICT", 270, 12, 4)],
  [(270, 1, 1), (270, 3, 1), (270, 4, 1), (270, 5, 1), (270, 10, 1), (270, 11, 1), (270, 12, 1)])
def state():
    out = {}
    for k, (s, t) in socks.items():
        o = opts(s, t)
        out.update({k + " " + n: v for n, v in o.items()})
    return out
before = state()
ready()
answer(compare(before, state()))

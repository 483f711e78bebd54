#! capabilities
# What a session changes of its own network, which it can with CAP_NET_ADMIN.
#: network | interfaces, addresses, routes, rules and packet filters that the session changed | warned: without these changes: address 192.0.2.7/32 of lo
import socket
body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH", 8, 2) + socket.inet_aton("192.0.2.7")
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.send(struct.pack("=IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)  # RTM_NEWADDR, to be answered
code = struct.unpack("=i", s.recv(4096)[16:20])[0]; s.close()
b = socket.socket(); b.bind(("192.0.2.7", 0)); b.close()
ready()
u = socket.socket()
try: u.bind(("127.0.0.1", 0)); loopback = True
except OSError: loopback = False
answer([same("address added", code, 0), same("loopback", loopback, True)])

# Connections inside the session: with data that waits in both directions, half-closed, with options, and one that
# a listener hasn't accepted.
#: TCP | data in both directions, half closed, TCP_NODELAY, keepalive | kept
import socket
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname()); b, _ = listener.accept()
a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
a.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
a.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
a.send(b"to b"); b.send(b"to a")
c = socket.create_connection(listener.getsockname()); d, _ = listener.accept()
c.send(b"last"); c.shutdown(socket.SHUT_WR)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
ready()
wrong = [b.recv(64) == b"to b" or "a to b", a.recv(64) == b"to a" or "b to a"]
wrong.append(a.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1 or "TCP_NODELAY")
wrong.append(a.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77 or "TCP_KEEPIDLE")
wrong.append(d.recv(64) == b"last" or "half-closed")
d.settimeout(20)
wrong.append(d.recv(64) == b"" or "the end of a half-closed stream")
d.send(b"back"); wrong.append(c.recv(64) == b"back" or "the other half")
a.send(b"on"); wrong.append(b.recv(64) == b"on" or "after it")
n = socket.create_connection(listener.getsockname()); m, _ = listener.accept(); n.send(b"new")
wrong.append(m.recv(64) == b"new" or "a new connection")
udp.sendto(b"self", udp.getsockname()); wrong.append(udp.recv(64) == b"self" or "UDP")
answer(wrong)

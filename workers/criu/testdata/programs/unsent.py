# A writer blocked on a connection inside the session: what it wrote is read in the end.
#: TCP | unsent data of a blocked writer | kept
import os, socket
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(1)
writer = socket.create_connection(listener.getsockname())
reader, _ = listener.accept()
listener.close()
writer.setblocking(False)
data, queued = bytes(range(256)) * 4096, 0
try:
    while True:
        queued += writer.send(data[queued % 256:queued % 256 + 65536])
except BlockingIOError:
    pass
ready()
got = b""
while len(got) < queued:
    more = reader.recv(65536)
    if not more:
        break
    got += more
same = all(b == i % 256 for i, b in enumerate(got))
answer([len(got) == queued and same or "%d of %d bytes" % (len(got), queued)])

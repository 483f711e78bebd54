# Data and descriptors that wait in pipes and sockets: a descriptor in flight, datagrams, half-closed streams.
#: pipe | with data | kept
#: unix socket | with a pipe end in flight | warned: it is taken for one of the descriptors
#: unix socket | queued datagrams and packets; half closed | kept
import array, os, socket
r, w = os.pipe()
os.write(w, b"in the pipe")
left, right = socket.socketpair()
socket.send_fds(left, [b"with a descriptor"], [w])
os.close(w)
da, db = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
da.send(b"one"); da.send(b"two")
sa, sb = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sa.send(b"first"); sa.send(b"second")
ha, hb = socket.socketpair()
ha.send(b"last words"); ha.shutdown(socket.SHUT_WR)
ready()
wrong = [os.read(r, 64) == b"in the pipe" or "pipe"]
text, fds, _, _ = socket.recv_fds(right, 64, 1)
wrong.append((text, len(fds)) == (b"with a descriptor", 1) or "message %s with %d descriptors" % (text, len(fds)))
if fds:
    os.write(fds[0], b"through it")
    wrong.append(os.read(r, 64) == b"through it" or "the descriptor in flight is another one")
wrong.append([db.recv(64), db.recv(64)] == [b"one", b"two"] or "datagrams")
wrong.append([sb.recv(64), sb.recv(64)] == [b"first", b"second"] or "packets")
wrong.append([hb.recv(64), hb.recv(64)] == [b"last words", b""] or "half-closed stream")
answer(wrong)

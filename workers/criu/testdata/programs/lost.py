# What comes back different, and is warned of.
#: UDP | queued datagrams | warned: the datagrams that wait in a UDP socket are lost
#: raw socket | queued datagrams | warned: the datagrams that wait in a raw socket are lost
#: packet socket | queued packets | warned: the packets that wait in a packet socket are lost
#: unix socket | empty packet, first in the queue | warned: an empty packet that waits in a unix socket is lost
#: inotify | events that aren't read | warned: bytes of inotify events
#: unix socket | sender of a queued datagram | warned: lose the address of their sender
#: unix socket | SO_PEERCRED of another process | warned: by SO_PEERCRED that another process
import select, socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
udp.sendto(b"queued", udp.getsockname())
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253)
raw.sendto(b"queued", ("127.0.0.1", 0))
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
packets.bind(("lo", 0x88b5))
packets.send(b"\0" * 12 + b"\x88\xb5queued")
for s in (raw, packets):
    select.select([s], [], [])
os.mkdir("/tmp/watched-dir")
watch = call("inotify_init1", os.O_NONBLOCK)
call("inotify_add_watch", watch, b"/tmp/watched-dir", 0x100)
open("/tmp/watched-dir/new", "w").close()
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind("\0receiver")
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.bind("\0sender")
sender.sendto(b"who sent it?", "\0receiver")
empty = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
empty[0].send(b"")
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0listener")
listener.listen(1)
if os.fork() == 0:
    client = socket.socket(socket.AF_UNIX)
    client.connect("\0listener")
    signal.pause()
accepted, _ = listener.accept()
ready()
answer([receiver.recv(64) == b"who sent it?" or "the datagram"])

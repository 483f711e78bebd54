# A packet socket with a ring.
#: packet socket | ring, empty; version | kept
import mmap, socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(263, 10, 1)  # PACKET_VERSION
s.setsockopt(263, 5, struct.pack("IIII", 4096, 4, 2048, 8))  # PACKET_RX_RING
ring = mmap.mmap(s.fileno(), 16384)
ready()
answer([same("version", s.getsockopt(263, 10), 1), same("ring", len(ring[:]), 16384)])

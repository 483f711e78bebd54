#! capabilities
# Terminals that a program of the session has made, as tmux, script and ssh do.
#: terminal (inner) | unfinished line, lines that wait, ended by Ctrl-D, raw input | kept
#: terminal (inner) | output that waits, stopped output | kept
#: terminal (inner) | exclusive use, packet mode, window size, settings, locked ones, lock of the slave, closed master | kept
import fcntl, select, termios, tty
def pair(echo=True):
    master, slave = os.openpty()
    if not echo:
        a = termios.tcgetattr(slave)
        a[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, a)
    return master, slave
def typed(text, echo=True, raw=False):
    """A terminal into which text was typed, which has been processed."""
    master, slave = pair(echo)
    if raw:
        tty.setraw(slave)
    os.write(master, text)
    if raw:
        select.select([slave], [], [])
    return master, slave
TIOCGEXCL, TIOCGPKT, TIOCGPTLCK, TIOCGLCKTRMIOS, TIOCSLCKTRMIOS = 0x80045440, 0x80045438, 0x80045439, 0x5456, 0x5457
def ask(fd, request, size=4):
    b = bytearray(size)
    fcntl.ioctl(fd, request, b)
    return bytes(b)
half, lines, ended, raw = typed(b"half a li"), typed(b"one\ntwo\nthr", echo=False), typed(b"no newline\4\4more\4rest", echo=False), typed(b"\3raw\4", raw=True)
echoed = b""
while len(echoed) < 9:
    echoed += os.read(half[0], 9)
while select.select([half[0]], [], [], 0)[0]:
    os.read(half[0], 9)
os.write(half[1], b"prompt\n")
printed, stopped, exclusive, packets, sized, set_, locked, closed = (pair() for _ in range(8))
os.write(printed[1], b"out\nput")
fcntl.ioctl(stopped[1], termios.TCXONC, termios.TCOOFF)
by_key = pair(echo=False)
os.write(by_key[0], b"\x13")  # Ctrl-S
while select.select([], [by_key[1]], [], 0)[1]:
    pass
fcntl.ioctl(exclusive[1], termios.TIOCEXCL)
fcntl.ioctl(packets[0], termios.TIOCPKT, struct.pack("i", 1))
fcntl.ioctl(sized[0], termios.TIOCSWINSZ, struct.pack("HHHH", 12, 34, 56, 78))
a = termios.tcgetattr(set_[1])
a[0], a[3], a[6][termios.VINTR] = a[0] | 0o40000, a[3] & ~termios.ECHO, b"\x1d"
termios.tcsetattr(set_[1], termios.TCSANOW, a)
fcntl.ioctl(locked[1], TIOCSLCKTRMIOS, b"\xff" * 16 + b"\0" * 44)
unlocked = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
os.close(closed[0])
def state():
    return {
        "exclusive": ask(exclusive[1], TIOCGEXCL), "packets": ask(packets[0], TIOCGPKT), "size": ask(sized[1], termios.TIOCGWINSZ, 8), "settings": termios.tcgetattr(set_[1]),
        "locked": ask(locked[1], TIOCGLCKTRMIOS, 60)[:17], "lock": ask(unlocked, TIOCGPTLCK), "closed": tried(lambda: os.read(closed[1], 1)),
        "stopped": select.select([], [stopped[1], by_key[1]], [], 0)[1], "modes": [termios.tcgetattr(p[1]) for p in (half, lines, ended, raw, printed)],
    }
before = state()
ready()
wrong = compare(before, state())
for _, slave in (half, lines, ended, raw, stopped):
    os.set_blocking(slave, False)
def reads(fd, n):
    return [tried(lambda: os.read(fd, 99)) for _ in range(n)]
again = "Resource temporarily unavailable"
wrong.append(same("half, not ended", reads(half[1], 1), [again]))
os.write(half[0], b"ne\n")
select.select([half[1]], [], [], 9)
wrong.append(same("half", reads(half[1], 2), [b"half a line\n", again]))
shown = b""
while len(shown) < 12:
    shown += os.read(half[0], 99)
wrong.append(same("shown", shown, b"prompt\r\nne\r\n"))
wrong.append(same("lines", reads(lines[1], 3), [b"one\n", b"two\n", again]))
os.write(lines[0], b"ee\n")
select.select([lines[1]], [], [], 9)
wrong.append(same("third", reads(lines[1], 1), [b"three\n"]))
wrong.append(same("ended", reads(ended[1], 4), [b"no newline", b"", b"more", again]))
wrong.append(same("raw", reads(raw[1], 1), [b"\3raw\4"]))
wrong.append(same("printed", os.read(printed[0], 99), b"out\r\nput"))
os.set_blocking(by_key[1], False)
wrong.append(same("stopped", tried(lambda: os.write(by_key[1], b"x")), again))
os.write(by_key[0], b"\x11")  # Ctrl-Q
wrong.append(bool(select.select([], [by_key[1]], [], 9)[1]) or "Ctrl-Q starts nothing")
answer(wrong)

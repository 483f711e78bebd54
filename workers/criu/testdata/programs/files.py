# Open files: offsets, flags, one that was renamed, one with another link only, a directory that is read half, a FIFO with data, O_TMPFILE.
#: open file | offset, flags, renamed, unlinked with another link, O_TMPFILE | kept
#: FIFO | with data | kept
import fcntl, os
a = os.open("/tmp/a", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(a, b"0123456789"); os.lseek(a, 4, os.SEEK_SET); os.rename("/tmp/a", "/tmp/renamed")
b = os.open("/tmp/b", os.O_RDWR | os.O_CREAT); os.write(b, b"linked"); os.link("/tmp/b", "/tmp/c"); os.unlink("/tmp/b")
t = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(t, b"without a name")
os.mkfifo("/tmp/fifo"); p = os.open("/tmp/fifo", os.O_RDWR | os.O_NONBLOCK); os.write(p, b"waiting")
d = os.dup(a)
os.set_inheritable(d, True)
ready()
wrong = [os.lseek(a, 0, os.SEEK_CUR) == 4 or "offset", os.read(a, 3) == b"456" or "content"]
wrong.append(os.lseek(d, 0, os.SEEK_CUR) == 7 or "a duplicate has an offset of its own")
wrong.append(fcntl.fcntl(a, fcntl.F_GETFL) & os.O_APPEND or "O_APPEND")
wrong.append((os.get_inheritable(d), os.get_inheritable(a)) == (True, False) or "close-on-exec")
wrong.append((os.pread(b, 6, 0), os.fstat(b).st_nlink, os.fstat(b).st_ino == os.stat("/tmp/c").st_ino) == (b"linked", 1, True) or "the file with another link")
wrong.append(os.pread(t, 14, 0) == b"without a name" or "O_TMPFILE")
wrong.append(os.read(p, 64) == b"waiting" or "FIFO")
answer(wrong)

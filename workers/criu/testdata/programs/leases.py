# Leases on files.
#: file lock | lease, for reading and writing | kept
import fcntl
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = os.open("/tmp/le", os.O_RDONLY | os.O_CREAT); g = os.open("/tmp/wl", os.O_RDWR | os.O_CREAT)
fcntl.fcntl(f, 1024, fcntl.F_RDLCK); fcntl.fcntl(g, 1024, fcntl.F_WRLCK)
ready()
answer([same("r", fcntl.fcntl(f, 1025), fcntl.F_RDLCK), same("w", fcntl.fcntl(g, 1025), fcntl.F_WRLCK)])

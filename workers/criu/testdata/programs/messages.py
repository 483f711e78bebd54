# A POSIX message queue that is open, and what waits in one that no process has open.
#: POSIX message queue | not open, with a message | warned: the POSIX message queues queue are lost
q = call("mq_open", b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None)
call("mq_send", q, b"message", ctypes.c_size_t(7), 1)
os.close(q)
ready()
answer([libc.mq_open(b"/queue", os.O_RDWR) < 0 or "it is kept: say so"])

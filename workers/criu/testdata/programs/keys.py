#! capabilities and system calls
# Keys of the process and of a session keyring of its own.
#: keyring | keys of the session, of a process, of a thread | warned: those of the session aren't kept
def keyctl(*args): return libc.syscall(ctypes.c_long(250), *args)
keyctl(1, b"its own")  # KEYCTL_JOIN_SESSION_KEYRING
keys = [call("syscall", ctypes.c_long(248), b"user", b"diapause:%d" % -ring, b"secret", ctypes.c_size_t(6), ring) for ring in (-1, -2, -3)]
ready()
answer([keyctl(11, k, ctypes.create_string_buffer(9), ctypes.c_size_t(9)) < 0 or "a key is kept: say so" for k in keys])

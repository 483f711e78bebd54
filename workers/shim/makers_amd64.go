package shim

import "golang.org/x/sys/unix"

// makers are the system calls that make a process.
var makers = []int{unix.SYS_VFORK, unix.SYS_CLONE, unix.SYS_CLONE3}

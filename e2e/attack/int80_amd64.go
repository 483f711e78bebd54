package attack

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// int80 makes a system call as 32-bit programs do. Its result is negative for an error.
func int80(number, first, second, third uint32) int32

// i386 makes a call by the number that it has in 32-bit programs.
func i386(number uint32, args ...uint32) func(Facts) error {
	var a [3]uint32
	copy(a[:], args)
	return func(Facts) (err error) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if recover() != nil {
				err = noSuchCalls
			}
		}()
		if r := int80(number, a[0], a[1], a[2]); r < 0 {
			return unix.Errno(-r)
		}
		return nil
	}
}

// i386Here reports whether this machine has such calls: some virtual machines have none, though their kernel can make them.
func i386Here() bool {
	const getpid = 20
	return i386(getpid)(Facts{}) == nil
}

// x32 is what the numbers of x32's calls have besides.
const x32 = 1 << 30

// foreign are calls in other conventions than that of this program.
func foreign() []Attempt {
	const unshare, keyctl, mount, socketcall, ptrace, reboot = 310, 288, 21, 102, 26, 88
	return []Attempt{
		{What: "i386: unshare the mounts", Want: eperm, Control: true, I386: true, Try: i386(unshare, unix.CLONE_NEWNS)},
		{What: "i386: unshare the users", Want: eperm, I386: true, Try: i386(unshare, unix.CLONE_NEWUSER)},
		{What: "i386: keyctl", Want: eperm, Control: true, I386: true, Try: i386(keyctl, unix.KEYCTL_GET_KEYRING_ID, userKeyring, 0)},
		{What: "i386: mount", Want: eperm, I386: true, Try: i386(mount, 0, 0, 0)},
		{What: "i386: socketcall, whose arguments no filter sees", Want: []string{"ENOSYS"}, I386: true, Try: i386(socketcall, 1, 0)},
		{What: "i386: ptrace of init", Want: eperm, I386: true, Try: i386(ptrace, unix.PTRACE_ATTACH, 1)},
		{What: "i386: reboot", Want: eperm, I386: true, Try: i386(reboot, 0xfee1dead, 672274793, 0)},
		{What: "x32: getpid", Want: []string{"ENOSYS"}, Try: call(x32 + unix.SYS_GETPID)},
		{What: "x32: unshare the mounts", Want: []string{"ENOSYS"}, Try: call(x32+unix.SYS_UNSHARE, unix.CLONE_NEWNS)},
	}
}

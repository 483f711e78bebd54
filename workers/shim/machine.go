package shim

import (
	"os"
	"strings"
)

// MachineBoot names this run of the machine: it is another one after a restart. It is empty where the kernel
// doesn't say it.
func MachineBoot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// goesDown reports whether systemd is ending all that is left on the machine: it has become systemd-shutdown(8)
// by then, of whose name the kernel keeps 15 bytes.
func goesDown() bool {
	b, err := os.ReadFile("/proc/1/comm")
	return err == nil && strings.HasPrefix(string(b), "systemd-shutdow")
}

package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes what the figures were measured on, on one line.
func Machine() string {
	var u unix.Utsname
	var s unix.Sysinfo_t
	if unix.Uname(&u) != nil || unix.Sysinfo(&s) != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return fmt.Sprintf("%d CPUs (%s), %d GiB of memory, %s, Linux %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name\t: "),
		(uint64(s.Totalram)*uint64(s.Unit)+1<<29)>>30, strings.Trim(field("/etc/os-release", "PRETTY_NAME="), `"`), unix.ByteSliceToString(u.Release[:]))
}

// Load is how many processes wanted to run, on average over the last minute.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// field gives what follows prefix on the first line of a file that begins so.
func field(file, prefix string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

// CriuVersion is the version of the private criu, or says why there is none.
func CriuVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, Criu(), "--version").Output()
	if err != nil {
		return "not found: " + err.Error()
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "Version:"))
}

// Criu is the wrapper that runs the private criu.
func Criu() string {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	return prefix + "/criu/current/bin/criu"
}

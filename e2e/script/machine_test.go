package script

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// condition answers [resource]: whether this machine gives its root the
// capability CAP_SYS_RESOURCE, which CRIU needs to capture other users'
// processes.
func condition(cond string) (bool, error) {
	if cond != "resource" {
		return false, fmt.Errorf("no such condition: %s", cond)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	caps, err := strconv.ParseUint(word, 16, 64)
	return caps&(1<<unix.CAP_SYS_RESOURCE) != 0, err
}

// cmdSmallDisk puts the data directory on a file system of its own.
func cmdSmallDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: smalldisk SIZE")
	}
	data := stackOf(ts).Data
	ts.Check(os.Mkdir(data, 0o700))
	ts.Check(unix.Mount("tmpfs", data, "tmpfs", 0, "mode=700,size="+args[0]))
}

func cmdResizeDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: resizedisk SIZE")
	}
	ts.Check(unix.Mount("tmpfs", stackOf(ts).Data, "tmpfs", unix.MS_REMOUNT, "mode=700,size="+args[0]))
}

// dropDisk releases what cmdSmallDisk has mounted.
func dropDisk(data string) error {
	err := unix.Unmount(data, unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // it is an ordinary directory, or was never made
	}
	return err
}

package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Kind is which engine a test runs.
type Kind string

// The kinds. The name of one in DIAPAUSE_TEST_ENGINE makes it what all tests of a run get
// that don't ask for another.
const (
	Machine    Kind = "machine"    // Debian's docker.io, as the machine has it: 20.10 on Debian 12
	Current    Kind = "current"    // today's, that install.sh put beside it, with a graph driver
	Containerd Kind = "containerd" // the same with the containerd image store
	Newest     Kind = "newest"     // built by install.sh --newest, with the store that it has by itself: containerd's
)

// Default is the kind that tests get which don't ask for one.
func Default() Kind {
	if k := os.Getenv("DIAPAUSE_TEST_ENGINE"); k != "" {
		return Kind(k)
	}
	return Machine
}

// dir has the programs of an engine that install.sh has put beside the machine's.
func (k Kind) dir() string {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	which := "current"
	if k == Newest {
		which = "newest"
	}
	return filepath.Join(prefix, "docker", which, "bin")
}

// there says what is missing of an engine.
func (k Kind) there() error {
	switch k {
	case Machine, Current, Containerd, Newest:
	default:
		return fmt.Errorf("DIAPAUSE_TEST_ENGINE is %q: there are %s, %s, %s and %s", k, Machine, Current, Containerd, Newest)
	}
	if _, err := exec.LookPath(k.program()); err != nil {
		return fmt.Errorf("find the Docker engine (`make setup-test` installs it): %w", err)
	}
	return nil
}

// program is the engine's.
func (k Kind) program() string {
	if k == Machine {
		return "dockerd"
	}
	return filepath.Join(k.dir(), "dockerd")
}

// path is where the engine finds its own programs.
func (k Kind) path() string {
	if k == Machine {
		return os.Getenv("PATH")
	}
	return k.dir() + string(os.PathListSeparator) + os.Getenv("PATH")
}

// Copying are arguments for an engine of the tests' kind that doesn't keep layers as
// directories above each other.
func Copying() []string {
	if k := Default(); k == Containerd || k == Newest {
		return []string{"--storage-driver", "native"}
	}
	return []string{"--storage-driver", "vfs"}
}

func (k Kind) args() []string {
	switch k {
	case Current:
		return []string{"--feature", "containerd-snapshotter=false"}
	case Containerd:
		return []string{"--feature", "containerd-snapshotter=true"}
	case Newest:
		return []string{"--seccomp-profile", "unconfined"} // its runc has no seccomp
	}
	return nil
}

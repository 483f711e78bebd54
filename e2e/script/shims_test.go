package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// shimMemory is how much memory of its own an idle shim may take, in bytes.
const shimMemory = 7 << 19

// cmdSmallShims waits until so many sessions have a shim, each the program that the build
// put into diapause, and little memory of its own.
func cmdSmallShims(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: smallshims COUNT")
	}
	count, err := strconv.Atoi(args[0])
	ts.Check(err)
	for end := time.Now().Add(deadline); ; time.Sleep(step) {
		err := smallShims(stackOf(ts).Data, count)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("after %s: %v", deadline, err)
		}
	}
}

func smallShims(data string, count int) error {
	states, err := filepath.Glob(filepath.Join(data, "run", "*.json"))
	if err != nil || len(states) != count {
		return fmt.Errorf("%d sessions have a state file, not %d (%v)", len(states), count, err)
	}
	for _, file := range states {
		var state struct {
			Shim int `json:"shim"`
		}
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &state)
		}
		if err == nil {
			err = smallShim(state.Shim)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func smallShim(pid int) error {
	exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return err
	}
	defer exe.Close()
	if link, err := os.Readlink(exe.Name()); err != nil || !strings.HasPrefix(link, "/memfd:diapause-shim") {
		return fmt.Errorf("shim %d executes %s (%v)", pid, link, err)
	}
	if seals, err := unix.FcntlInt(exe.Fd(), unix.F_GET_SEALS, 0); err != nil || seals&unix.F_SEAL_WRITE == 0 {
		return fmt.Errorf("the program of shim %d could be changed: seals %#x, %v", pid, seals, err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return err
	}
	own := 0 // the program is shared: with the daemon, unless that was started again
	for line := range bytes.Lines(b) {
		if f := strings.Fields(string(line)); f[0] == "Anonymous:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				return err
			}
			own = kb << 10
		}
	}
	if own == 0 || own > shimMemory {
		return fmt.Errorf("shim %d has %d bytes of its own, more than %d", pid, own, shimMemory)
	}
	return nil
}

// cmdPowerCut has nothing that runs survive, while the daemon is down, and what is left of that be of an
// earlier run of the machine.
func cmdPowerCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: powercut")
	}
	states, err := filepath.Glob(filepath.Join(stackOf(ts).Data, "run", "*.json"))
	ts.Check(err)
	if len(states) == 0 {
		ts.Fatalf("no session runs")
	}
	for _, file := range states {
		b, err := os.ReadFile(file)
		ts.Check(err)
		var state map[string]any
		ts.Check(json.Unmarshal(b, &state))
		shim, _ := state["shim"].(float64)
		ts.Check(unix.Kill(int(shim), unix.SIGKILL))
		state["machine"] = "one that was before"
		b, err = json.Marshal(state)
		ts.Check(err)
		ts.Check(os.WriteFile(file, b, 0o600))
	}
}

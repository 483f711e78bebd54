package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/network"
)

// doctorVariable makes the test binary the program.
const doctorVariable = "DIAPAUSE_TEST_DOCTOR"

// The test binary is also what it starts: the program, a shim, a canary.
func init() {
	if os.Getenv(doctorVariable) != "" {
		main()
	}
	if code, ok := hidden(os.Args[1:]); ok {
		os.Exit(code)
	}
}

// doctorLimit bounds one run; it takes about a second.
const doctorLimit = 2 * time.Minute

func doctorProgram(t *testing.T, program, data string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), doctorLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, append([]string{"doctor", "--data", data}, args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DIAPAUSE_URL=") && !strings.HasPrefix(kv, "DIAPAUSE_CREDS=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(append(cmd.Env, doctorVariable+"=1"), env...)
	return cmd
}

// examined runs the doctor, and gives its findings by name.
func examined(t *testing.T, data string, env []string, args ...string) (doctor.Report, map[string]doctor.Finding) {
	t.Helper()
	return examinedBy(t, os.Args[0], data, env, args...)
}

func examinedBy(t *testing.T, program, data string, env []string, args ...string) (doctor.Report, map[string]doctor.Finding) {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := doctorProgram(t, program, data, env, append([]string{"--json", "--listen", freeAddress()}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var report doctor.Report
	if jsonErr := json.Unmarshal(out.Bytes(), &report); jsonErr != nil {
		t.Fatalf("doctor: %v, %v\n%s%s", err, jsonErr, out.String(), stderr.String())
	}
	if code := cmd.ProcessState.ExitCode(); report.OK != (code == exitDone) || !report.OK && code != exitFailed || stderr.Len() > 0 {
		t.Errorf("ok is %v, and the exit code %d; on standard error: %s", report.OK, code, stderr.String())
	}
	findings := make(map[string]doctor.Finding)
	for _, f := range report.Checks {
		findings[f.Name] = f
	}
	return report, findings
}

// freeAddress is on a loopback address that no other process uses.
func freeAddress() string {
	return fmt.Sprintf("127.83.%d.%d:4222", os.Getpid()>>8&0xff, os.Getpid()&0xff)
}

// scratchOf lists the scratch directories of doctors.
func scratchOf(t *testing.T, above string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(above, ".diapause-doctor-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestDoctorOnThisMachine(t *testing.T) {
	above := t.TempDir()
	data := filepath.Join(above, "data")
	report, found := examined(t, data, nil)
	for _, f := range report.Checks {
		if f.Status == doctor.Fail || f.Status == doctor.Skipped {
			t.Errorf("%s: %s: %s", f.Name, f.Status, f.Detail)
		}
	}
	if c := found["canary"]; c.Measured["dump_ms"] <= 0 || c.Measured["restore_ms"] <= 0 || !strings.Contains(c.Detail, "restored in") {
		t.Errorf("the canary was not measured: %+v", c)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the doctor made the data directory")
	}
	if left := scratchOf(t, above); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDoctorWithoutCriu(t *testing.T) {
	_, found := examined(t, filepath.Join(t.TempDir(), "data"), []string{"DIAPAUSE_CRIU=/bin/false"})
	if c := found["criu"]; c.Status != doctor.Fail || !strings.Contains(c.Detail, "/bin/false") || !strings.Contains(c.Fix, "install.sh") {
		t.Errorf("criu: %+v", c)
	}
	if c := found["canary"]; c.Status != doctor.Skipped || !strings.Contains(c.Detail, "criu") {
		t.Errorf("canary: %+v", c)
	}
	if c := found["store"]; c.Status != doctor.OK {
		t.Errorf("what doesn't need criu: %+v", c)
	}
}

func TestDoctorAndTheDockerEngine(t *testing.T) {
	above := t.TempDir()
	// Without the race detector, whose memory would be the canary's, too.
	program := filepath.Join(above, "diapause")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	for asked, want := range map[string]struct {
		status doctor.Status
		says   string
	}{
		"none":                         {doctor.OK, "--docker none"},
		"unix://" + above + "/nowhere": {doctor.Warn, above + "/nowhere doesn't answer"},
		"tcp://127.0.0.1:2375":         {doctor.Warn, "want unix:///"},
	} {
		report, found := examinedBy(t, program, filepath.Join(above, "data"), nil, "--docker", asked)
		if d := found["docker"]; !report.OK || d.Status != want.status || !strings.Contains(d.Detail, want.says) || d.Status == doctor.Warn && d.Fix == "" {
			t.Errorf("--docker %s: %+v", asked, d)
		}
	}
	if left := scratchOf(t, above); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A criu that says a good version and does nothing: only the canary finds out.
func TestDoctorWithACriuThatDoesNotWork(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "criu")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\n[ \"$1\" = --version ] || exit 1\necho Version: 4.9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	_, found := examined(t, filepath.Join(above, "data"), []string{"DIAPAUSE_CRIU=" + fake})
	if c := found["criu"]; c.Status != doctor.OK {
		t.Errorf("criu: %+v", c)
	}
	if c := found["criu-mends"]; c.Status != doctor.Warn || !strings.Contains(c.Detail, "tcp-unsent") || !strings.Contains(c.Fix, "build.sh") {
		t.Errorf("the mends of a criu that doesn't name any: %+v", c)
	}
	if c := found["canary"]; c.Status != doctor.Fail || !strings.Contains(c.Detail, "dump the canary") || c.Fix == "" {
		t.Errorf("canary: %+v", c)
	}
	if left := scratchOf(t, above); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDoctorWhereNothingCanBeWritten(t *testing.T) {
	_, found := examined(t, "/proc/sys/diapause", nil)
	if c := found["scratch"]; c.Status != doctor.Fail || !strings.Contains(c.Fix, "--data") {
		t.Errorf("scratch: %+v", c)
	}
	for _, name := range []string{"overlay", "swap", "canary", "store", "nats"} {
		if c := found[name]; c.Status != doctor.Skipped {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestDoctorBesideAStartedUp(t *testing.T) {
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := tree(t, d.Path())
	_, found := examined(t, d.Path(), nil)
	if c := found["data-directory"]; c.Status != doctor.OK || !strings.Contains(c.Detail, fmt.Sprint(os.Getpid())) {
		t.Errorf("data directory: %+v", c)
	}
	if c := found["canary"]; c.Status == doctor.Fail || c.Status == doctor.Skipped {
		t.Errorf("canary: %+v", c)
	}
	if after := tree(t, d.Path()); after != before {
		t.Errorf("the data directory holds\n%s\nand held\n%s", after, before)
	}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestAKilledDoctorsCanaryIsRemovedByTheNext(t *testing.T) {
	above := t.TempDir()
	data := filepath.Join(above, "data")
	first := doctorProgram(t, os.Args[0], data, nil, "--listen", freeAddress())
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	awaitCanary(t, above)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil {
		t.Fatal("it was done before it was killed")
	}
	left := scratchOf(t, above)
	if len(left) != 1 {
		t.Fatalf("left are %v, want the killed doctor's directory", left)
	}
	group := "doctor-" + left[0][strings.LastIndex(left[0], "-")+1:]
	if !slices.Contains(groups(t), group) {
		t.Errorf("the killed doctor's cgroup %s is not found among %v", group, groups(t))
	}
	// It takes no criu to remove it.
	if _, found := examined(t, data, []string{"DIAPAUSE_CRIU=/bin/false"}); found["scratch"].Status != doctor.OK {
		t.Errorf("scratch: %+v", found["scratch"])
	}
	if left := scratchOf(t, above); len(left) > 0 || slices.Contains(groups(t), group) {
		t.Errorf("left are %v and the cgroups %v, with %s", left, groups(t), group)
	}
}

// awaitCanary returns when a canary runs.
func awaitCanary(t *testing.T, above string) {
	t.Helper()
	running := filepath.Join(above, ".diapause-doctor-*", canaryDir, "run", "*.json")
	for end := time.Now().Add(doctorLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if found, err := filepath.Glob(running); err != nil || len(found) > 0 {
			return
		}
	}
	t.Fatal("no canary comes to run")
}

// groups lists the cgroups of all that Diapause runs here.
func groups(t *testing.T) []string {
	t.Helper()
	h, err := cgroup.Open("diapause")
	if err != nil {
		t.Fatal(err)
	}
	all, err := h.Names()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDoctorsTextEndsWithTheVerdict(t *testing.T) {
	cmd := doctorProgram(t, os.Args[0], filepath.Join(t.TempDir(), "data"), []string{"DIAPAUSE_CRIU=/bin/false"}, "--listen", freeAddress())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("doctor: %v, want exit code %d", err, exitFailed)
	}
	for _, text := range []string{"fail     criu", "→ run `make setup`", "skipped  canary", "Diapause can't run here as it is ("} {
		if !strings.Contains(string(out), text) {
			t.Errorf("it doesn't say %q:\n%s", text, out)
		}
	}
}

func TestJudgeForwarding(t *testing.T) {
	if r := judgeForwarding(nil, nil); r.Status != doctor.OK || r.Fix != "" {
		t.Errorf("nothing drops: %+v", r)
	}
	if r := judgeForwarding(&network.Block{Chain: "ip filter FORWARD", Fix: "accept it"}, nil); r.Status != doctor.Warn || !strings.Contains(r.Detail, "ip filter FORWARD") || r.Fix != "accept it" {
		t.Errorf("a chain drops: %+v", r)
	}
	if r := judgeForwarding(nil, fs.ErrPermission); r.Status != doctor.Warn || !strings.Contains(r.Detail, "permission") || r.Fix == "" {
		t.Errorf("not to be told: %+v", r)
	}
}

func TestJudgeCgroups(t *testing.T) {
	version := cgroup.Fact{Name: "cgroup version", OK: true, Detail: "v2 at /sys/fs/cgroup"}
	freezer := cgroup.Fact{Name: "cgroup freezer", OK: true}
	if r := judgeCgroups([]cgroup.Fact{version, freezer}); r.Status != doctor.OK || r.Detail != "freezer (v2 at /sys/fs/cgroup)" {
		t.Errorf("all there: %+v", r)
	}
	memory := cgroup.Fact{Name: "cgroup memory", Detail: "missing: --memory is refused", Fix: "boot with it"}
	r := judgeCgroups([]cgroup.Fact{version, freezer, memory})
	if r.Status != doctor.Warn || !strings.Contains(r.Detail, "cgroup memory missing: --memory is refused") || r.Fix != "boot with it" {
		t.Errorf("no memory controller: %+v", r)
	}
}

package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// zdtmChanged are the programs of ZDTM that find something changed of which no suspend warns, with the reason.
var zdtmChanged = map[string]string{
	"unlink_fstat03": "the device number of its files, as KEPT.md says",
	"file_locks01":   "the device number of its files, in /proc/locks",
	"binfmt_misc":    "what it registers with the host's kernel: by default no session may",
	"cgroup00":       "the cgroups that it mounts and makes: by default no session may",
	"cgroup04":       "the cgroups that it mounts and makes: by default no session may",
	"cgroup_yard":    "the cgroups that it mounts and makes: by default no session may",
	"cgroup_stray":   "the cgroups that it mounts and makes: by default no session may",
}

// zdtmAtLeast is how many programs can be run on any machine that the tests are for.
const zdtmAtLeast = 350

const zdtmHead = `# CRIU's own test programs as sessions

[ZDTM](https://criu.org/ZDTM_test_suite) is CRIU's test suite: small programs that set up something of the kernel's, wait, and check
whether it is as it was. Each was run as a session with all capabilities, without a filter of system calls and without
a network, suspended with a rehearsal and resumed, twice, and then asked.

- **kept**: it finds nothing changed.
- **warned**: a suspend has warned; it may find that changed.
- **refused**: the suspend is refused by name before anything is frozen.
- **rehearsed**: the suspend fails, since its rehearsal does, and the session runs on.
- **changed**: no suspend warns; the reason stands there.

Programs that don't run here without a suspend either, for lack of a device, a mount or a driver, are left out.
This table is written by ` + "`DIAPAUSE_LONG=1 go test ./criu -run TestZDTM -update`" + `, after [zdtm.sh](install/zdtm.sh).

`

// TestZDTM runs the programs of CRIU's own test suite as sessions. None may find something changed of which
// no suspend has warned, and none may be suspended and not resumed.
func TestZDTM(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	programs := zdtmPrograms(t)
	var mu sync.Mutex
	verdicts := map[string][]string{}
	t.Run("programs", func(t *testing.T) {
		for _, program := range programs {
			name := filepath.Base(program)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				verdict, detail := zdtm{t: t, program: program}.judge()
				mu.Lock()
				defer mu.Unlock()
				verdicts[verdict] = append(verdicts[verdict], name)
				if verdict == "silent" || verdict == "lost" {
					t.Errorf("%s: %s", verdict, detail)
				}
			})
		}
	})
	ran := len(programs) - len(verdicts[zdtmElsewhere])
	if ran < zdtmAtLeast {
		t.Errorf("%d programs ran of %d, want %d: those that didn't are %v", ran, len(programs), zdtmAtLeast, verdicts[zdtmElsewhere])
	}
	if *update && !t.Failed() {
		if err := os.WriteFile("ZDTM.md", []byte(zdtmTable(verdicts)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func zdtmPrograms(t *testing.T) []string {
	t.Helper()
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	all, err := filepath.Glob(filepath.Join(prefix, "criu", "zdtm-*", "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the programs of ZDTM are missing: run workers/criu/install/zdtm.sh (%v)", err)
	}
	return all
}

func zdtmTable(verdicts map[string][]string) string {
	var b strings.Builder
	b.WriteString(zdtmHead + "| after a resume | programs | |\n| --- | --: | --- |\n")
	for _, v := range []string{"kept", "warned", "refused", "rehearsed"} {
		names := slices.Sorted(slices.Values(verdicts[v]))
		list := ""
		if v != "kept" {
			list = "`" + strings.Join(names, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", v, len(names), list)
	}
	for _, name := range slices.Sorted(slices.Values(verdicts["changed"])) {
		fmt.Fprintf(&b, "| changed | 1 | `%s`: %s |\n", name, zdtmChanged[name])
	}
	return b.String()
}

// zdtmElsewhere is of a program that doesn't run here.
const zdtmElsewhere = "elsewhere"

// zdtm is one of the programs.
type zdtm struct {
	t       *testing.T
	program string
}

// judge runs it without a suspend first: what fails then says nothing.
func (z zdtm) judge() (verdict, detail string) {
	if verdict, detail = z.run(0); verdict != "kept" {
		return zdtmElsewhere, detail
	}
	verdict, detail = z.run(2)
	if _, known := zdtmChanged[filepath.Base(z.program)]; known && verdict == "silent" {
		verdict = "changed"
	}
	return verdict, detail
}

// options are those that it wants.
func (z zdtm) options() string {
	ctx, cancel := context.WithTimeout(z.t.Context(), 5*time.Second) // a few are no tests, and wait for something
	defer cancel()
	asked := exec.CommandContext(ctx, z.program, "--no-such-option")
	asked.WaitDelay = time.Second
	help, _ := asked.CombinedOutput() // it fails, and says which it has
	all := "--pidfile=pid --outfile=out"
	for _, o := range []string{"--filename=file", "--dirname=dir", "--envname=ZDTM_ENV", "--mask=0345", "--arg1=a", "--arg2=b", "--arg3=c", "--name_master=m", "--name_slave=s"} {
		name, _, _ := strings.Cut(o, "=")
		if strings.Contains(string(help), name+"=") {
			all += " " + o
		}
	}
	return all
}

// run has it suspended and resumed so many times before it is asked.
func (z zdtm) run(cycles int) (verdict, detail string) {
	dir, name := filepath.Split(z.program)
	uid := fmt.Sprintf("%s-%d", strings.ReplaceAll(name, "+", "-plus"), cycles)
	spec := schemas.Spec{
		Command: []string{"/bin/sh", "-c", fmt.Sprintf(`mkdir /zdtm && chmod 777 /zdtm && cd /zdtm && export LD_LIBRARY_PATH=%s
			%s %s </dev/null >std 2>&1; echo "started $?"; exec sleep 100000`, dir, z.program, z.options())},
		CapAdd: []string{"ALL"}, Seccomp: schemas.Unconfined, Network: "none",
	}
	d := open(z.t, z.t.TempDir())
	s := begin(z.t, d, uid, spec)
	if got := z.started(s); !strings.Contains(got, "started 0") {
		return zdtmElsewhere, got
	}
	warned := false
	for range cycles {
		img := &drivertest.Image{}
		c, err := d.CaptureRehearsed(limited(z.t), s.next(), img, schemas.RehearseAlways)
		if err != nil {
			return z.refused(err), err.Error()
		}
		warned = warned || len(c.Warnings) > 0
		if err := d.Stop(limited(z.t), s.next()); err != nil {
			z.t.Fatal(err)
		}
		if _, err := d.Restore(limited(z.t), s.next(), spec, img, schemas.BootResume, drivertest.Begin); err != nil {
			return "lost", err.Error()
		}
	}
	// It is told to check itself by a SIGTERM, and gives its file the final name when it has done so.
	out := s.sh(`cd /zdtm; kill $(cat pid); i=0; while [ ! -e out ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done; cat out || cat out.inprogress`)
	switch pass := strings.Contains(out, ": PASS"); {
	case warned:
		return "warned", out
	case pass:
		return "kept", ""
	}
	return "silent", out
}

// started waits until it has set up what it is about, or can't.
func (z zdtm) started(s *session) (out string) {
	ctx, cancel := context.WithTimeout(z.t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(out, "started") && ctx.Err() == nil {
		out = output(z.t, s.d, s.uid)
		time.Sleep(20 * time.Millisecond)
	}
	return out
}

func (z zdtm) refused(err error) string {
	var e *driver.Error
	if errors.As(err, &e) && e.Kind == driver.Refused && len(e.Blockers) > 0 {
		return "refused"
	}
	return "rehearsed"
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// ageVersion is the age whose command line encrypts what people do today.
const ageVersion = "v1.3.2"

// Tools are the programs of what people do today, and a key.
type Tools struct {
	age, identity, recipient string
}

// Install gets age into dir and makes a key there; zstd comes from
// e2e/compat/install.sh.
func Install(ctx context.Context, dir string) (Tools, error) {
	t := Tools{age: filepath.Join(dir, "age"), identity: filepath.Join(dir, "identity")}
	if _, err := exec.LookPath("zstd"); err != nil {
		return t, fmt.Errorf("%w: run e2e/compat/install.sh", err)
	}
	for _, name := range []string{"age", "age-keygen"} {
		cmd := exec.CommandContext(ctx, "go", "install", "filippo.io/age/cmd/"+name+"@"+ageVersion)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			return t, fmt.Errorf("build %s %s: %w\n%s", name, ageVersion, err, out)
		}
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(dir, "age-keygen"), "-o", t.identity).CombinedOutput(); err != nil {
		return t, fmt.Errorf("make a key: %w\n%s", err, out)
	}
	b, err := os.ReadFile(t.identity)
	if err != nil {
		return t, fmt.Errorf("read the key: %w", err)
	}
	t.recipient = string(regexp.MustCompile(`age1[0-9a-z]+`).Find(b))
	return t, nil
}

// Today measures what people do today with a process of that many megabytes:
// criu dump into a directory, tar, zstd and age into a file, a copy that is
// synced; then back. dir is for scratch, on the file system of the store.
func Today(ctx context.Context, t Tools, hold string, mb int, dir string) (all []Measurement, err error) {
	p := process{t: t, dir: dir, hold: hold}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := p.start(ctx, mb); err != nil {
		return nil, err
	}
	was, err := p.ask(ctx, "sum")
	if err != nil {
		return nil, err
	}
	down := Measurement{Op: "Suspend", MB: mb, Who: "today", What: "first"}
	if err := p.suspend(ctx, &down); err != nil {
		return nil, err
	}
	up := Measurement{Op: "Resume", MB: mb, Who: "today", What: "first"}
	if err := p.resume(ctx, &up); err != nil {
		return nil, err
	}
	is, err := p.ask(ctx, "sum")
	if err == nil && was != is {
		err = fmt.Errorf("the memory's digest was %s and is %s", was, is)
	}
	return []Measurement{down, up}, err
}

// process is the process that is measured.
type process struct {
	t         Tools
	dir, hold string
	pid       int
	child     *exec.Cmd // as long as it is ours: criu's is init's
}

func (p *process) file(name string) string { return filepath.Join(p.dir, name) }

func (p *process) start(ctx context.Context, mb int) error {
	for _, d := range []string{"images", "back", "store"} {
		if err := os.MkdirAll(p.file(d), 0o700); err != nil {
			return fmt.Errorf("make a scratch directory: %w", err)
		}
	}
	p.child = exec.Command(p.hold, "keep", strconv.Itoa(mb), p.file("sock"))
	p.child.Dir = "/"
	p.child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.child.Start(); err != nil {
		return fmt.Errorf("start the process: %w", err)
	}
	p.pid = p.child.Process.Pid
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(p.file("sock")); err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.New("the process doesn't fill its memory")
		}
	}
}

func (p *process) ask(ctx context.Context, verb string) (string, error) {
	out, err := exec.CommandContext(ctx, p.hold, "ask", p.file("sock"), verb).Output()
	if err != nil {
		return "", fmt.Errorf("ask the process: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (p *process) suspend(ctx context.Context, m *Measurement) error {
	err := m.steps(ctx, []step{
		{"dump", fmt.Sprintf("%s dump -t %d -D images --manage-cgroups=ignore -o log -v1", local.Criu(), p.pid)},
		{"tar zstd age", fmt.Sprintf("tar -C images -c . | zstd -q -1 -T2 | %s -r %s -o packed", p.t.age, p.t.recipient)},
		{"copy", "cp packed store/packed && sync store/packed store"},
	}, p.dir)
	if err != nil {
		return err
	}
	_ = p.child.Wait() // criu has killed it
	p.child = nil
	frozen, _ := m.took("dump")
	m.Stages = append(m.Stages, Stage{"frozen", frozen}, Stage{"durable", m.Total})
	info, err := os.Stat(p.file("store/packed"))
	if err != nil {
		return fmt.Errorf("find what was stored: %w", err)
	}
	m.Stored = info.Size()
	return nil
}

func (p *process) resume(ctx context.Context, m *Measurement) error {
	return m.steps(ctx, []step{
		{"copy", "cp store/packed fetched"},
		{"age zstd tar", fmt.Sprintf("%s -d -i %s fetched | zstd -q -d | tar -C back -x", p.t.age, p.t.identity)},
		{"restore", local.Criu() + " restore -d -D back --manage-cgroups=ignore -o log -v1"},
	}, p.dir)
}

// step is one stage: a line of shell.
type step struct{ name, line string }

// steps runs the lines one after the other and adds what each took.
func (m *Measurement) steps(ctx context.Context, lines []step, dir string) error {
	for _, s := range lines {
		cmd := exec.CommandContext(ctx, "/bin/bash", "-o", "pipefail", "-c", s.line)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		begin := time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w: %s", s.name, err, out.String())
		}
		took := time.Since(begin)
		m.Stages = append(m.Stages, Stage{s.name, took})
		m.Total += took
	}
	return nil
}

// end kills the process and removes its files.
func (p *process) end() error {
	var err error
	if p.pid != 0 && runs(p.pid, p.hold) {
		err = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	if p.child != nil {
		_ = p.child.Wait() // killed
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// runs reports whether a pid is still that of the program.
func runs(pid int, program string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe == program
}

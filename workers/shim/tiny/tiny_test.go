package tiny

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestCodeIsWhatTheSourceAssemblesTo(t *testing.T) {
	for name, code := range map[string][]byte{"init": initCode, "enter": enterCode, "own": ownCode} {
		dir := t.TempDir()
		source := name + "_amd64.s.txt"
		object, binary := filepath.Join(dir, name+".o"), filepath.Join(dir, name+".bin")
		for _, argv := range [][]string{
			{"as", "--64", "-o", object, source},
			{"objcopy", "-O", "binary", "-j", ".text", object, binary},
		} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s(install binutils)", argv, err, out)
			}
		}
		got, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, code) {
			t.Errorf("%s_amd64.bin is not what %s assembles to: assemble it again", name, source)
		}
	}
}

// TestReportsAndEndsWithItsLeader runs the program in place of a shell that has
// started two children: the leader, and one that ends before it.
func TestReportsAndEndsWithItsLeader(t *testing.T) {
	for _, c := range []struct {
		leader string
		exit   int
		wait   uint32
	}{
		{"exit 0", 0, 0},
		{"exit 42", 42, 42 << 8},
		{"kill -9 $$", 128 + 9, 9},
		{"kill -15 $$", 128 + 15, 15},
	} {
		t.Run(c.leader, func(t *testing.T) {
			exit, got := runInit(t, c.leader)
			if exit != c.exit {
				t.Errorf("it ended with %d, want %d", exit, c.exit)
			}
			if len(got) != 2 || got[0].Wait != 7<<8 || got[1].Wait != c.wait {
				t.Errorf("it reported %+v, want an end with 7, then the leader's with wait status %#x", got, c.wait)
			}
		})
	}
}

func runInit(t *testing.T, leader string) (exit int, got []Status) {
	t.Helper()
	elf, err := Init()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "init")
	if err := os.WriteFile(path, elf, 0o755); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The first ends when the program is there: the shell, too, may reap what ends before.
	other := `(until read -r name </proc/$$/comm && [ "$name" = init ]; do :; done; exit 7) & other=$!; `
	script := other + `(while kill -0 $other; do :; done; ` + leader + `) 2>/dev/null & exec "$0" $!`
	if leader[:4] == "kill" {
		script = other + `sh -c 'while kill -0 '$other'; do :; done; ` + leader + `' 2>/dev/null & exec "$0" $!`
	}
	cmd := exec.Command("sh", "-c", script, path)
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Run()
	w.Close()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	for b := buf[:n]; len(b) >= StatusSize; b = b[StatusSize:] {
		got = append(got, DecodeStatus(b))
	}
	return cmd.ProcessState.ExitCode(), got
}

func TestDecodeStatus(t *testing.T) {
	want := Status{PID: 7, Wait: 9}
	b := append([]byte{7, 0, 0, 0}, 9, 0, 0, 0)
	if got := DecodeStatus(b); got != want || len(b) != StatusSize {
		t.Errorf("DecodeStatus(%s) = %+v, want %+v", strconv.Quote(string(b)), got, want)
	}
}

// TestOwn runs a command by the program.
func TestOwn(t *testing.T) {
	elf, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(path, elf, 0o755); err != nil {
		t.Fatal(err)
	}
	ours, err := os.Readlink("/proc/self/ns/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `echo 300 > /proc/self/oom_score_adj; exec "$@"`, "sh",
		path, "/bin/sh", "-c", `cat /proc/self/cgroup; readlink /proc/self/ns/cgroup; cat /proc/self/oom_score_adj; echo "$1 $HOME"`, "sh", "an argument")
	cmd.Env = []string{"HOME=/here"}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "]\n0\nan argument /here\n") || strings.Contains(string(out), ours) {
		t.Errorf("the command says %q, %v", out, err)
	}
	for line := range strings.Lines(string(out)) {
		if _, group, ok := strings.Cut(line, "::"); ok && group != "/\n" {
			t.Errorf("it sees its group at %s", line)
		}
	}
	if err := exec.Command(path, "/no/such/program").Run(); err == nil {
		t.Error("no program ends well")
	}
}

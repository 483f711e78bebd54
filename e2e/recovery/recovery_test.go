package recovery

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

const document = "../../objectstore/image/RECOVERY.md"

// maxLines is how long the script may be, comments and empty lines aside.
const maxLines = 60

// What the sessions run: each has something that is nowhere but in memory,
// and goes on to its end once GO is there.
const (
	counting = `
secret=$(cat /proc/sys/kernel/random/uuid); n=0; left=-1
while [ $left != 0 ]; do
	n=$((n+1)); echo "$n $secret" >>/tmp/count; echo "counted $n"
	if [ $left -gt 0 ]; then left=$((left-1)); elif [ -e GO ]; then left=20; fi
	sleep 0.02
done
echo "ended at $n $secret"`
	holding = `
import hashlib, os, time
memory = os.urandom(64 << 20)
was = hashlib.sha256(memory).hexdigest()
open("/tmp/count", "w").write("1 kept\n")
while not os.path.exists("GO"):
    time.sleep(0.02)
is_now = hashlib.sha256(memory).hexdigest()
open("/tmp/count", "a").write("2 kept\n")
print("ended at 2 kept" if was == is_now else f"was {was}, is {is_now}", flush=True)`
)

func TestRecovery(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		name  string
		run   []string
		least int // lines that it has counted before the suspend
	}{
		{"shell", []string{"--", "/bin/sh", "-c", counting}, 3},
		{"terminal", []string{"--tty", "--", "/bin/sh", "-c", counting}, 3},
		{"python", []string{"--", "/usr/bin/python3", "-c", holding}, 1},
	} {
		f.start(t, c.name, c.least, c.run)
	}
	f.startContainer(t, "container", "-v", "notes:/data")
	f.startContainer(t, "bare")
	f.startRooted(t, "rooted")
	for name, lineage := range f.stop(t, "shell", "terminal", "python", "container", "bare", "rooted") {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "container", "bare":
				f.recoverContainer(t, name+"-back", lineage)
			case "rooted":
				f.recoverRooted(t, lineage)
			default:
				f.recover(t, lineage, "/")
			}
		})
	}
}

// fixture is a store whose images an identity opens that the host doesn't have.
type fixture struct {
	*stack.Stack
	dir, script, identity string
	goes                  string // the file that lets the programs end
	engine                *dockertest.Engine
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, dir := stack.Fresh(t)
	f := &fixture{
		Stack: s, dir: dir, identity: filepath.Join(dir, "escrow"),
		script: filepath.Join(dir, "recover.py"), goes: filepath.Join(dir, "go"), engine: dockertest.Shared(t),
	}
	if err := os.WriteFile(f.script, documented(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"age", "age-keygen"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", tool), "filippo.io/age/cmd/"+tool).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", tool, err, out)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "bin", "age-keygen"), "-o", f.identity).CombinedOutput()
	if err != nil {
		t.Fatalf("make an identity: %v\n%s", err, out)
	}
	if err := f.Up("--docker", f.engine.URL, "--recipient", string(regexp.MustCompile(`age1\w+`).Find(out))); err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// documented is the script of the document.
func documented(t *testing.T) []byte {
	t.Helper()
	script := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(text(t))
	if script == nil {
		t.Fatalf("%s shows no script", document)
	}
	lines := 0
	for line := range bytes.Lines(script[1]) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			lines++
		}
	}
	if lines > maxLines {
		t.Errorf("the script has %d lines, want %d at most", lines, maxLines)
	}
	return script[1]
}

// until waits for something, which what names.
func (f *fixture) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// start starts a session, waits until it has counted, and suspends it.
func (f *fixture) start(t *testing.T, name string, least int, run []string) {
	t.Helper()
	args := append([]string{"run", "--name", name, "--idle", "never", "--cwd", "/"}, run...)
	args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "GO", f.goes)
	if _, err := f.Must(args...); err != nil {
		t.Fatal(err)
	}
	f.until(t, name+" counts", func() bool {
		r := f.Do("exec", name, "--", "cat", "/tmp/count")
		return r.Code == 0 && strings.Count(r.Out, "\n") >= least
	})
	if _, err := f.Must("suspend", name); err != nil {
		t.Fatal(err)
	}
}

// stop ends the daemon, copies its store away, and lets the programs end once they
// run again. It gives the copies of the lineages by session.
func (f *fixture) stop(t *testing.T, names ...string) map[string]string {
	t.Helper()
	lineages := map[string]string{}
	for _, name := range names {
		v, err := f.View(name)
		if err != nil {
			t.Fatal(err)
		}
		lineages[name] = filepath.Join(f.dir, "copy", "default", string(v.UID))
	}
	if _, err := f.Must("down"); err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(f.dir, "copy"), os.DirFS(filepath.Join(f.Data, "objects"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.goes, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return lineages
}

// only gives the name of the only snapshot of a lineage.
func only(t *testing.T, lineage string) string {
	t.Helper()
	snaps, err := os.ReadDir(filepath.Join(lineage, "snaps"))
	if err != nil || len(snaps) != 1 {
		t.Fatalf("snapshots %v, error %v, want one", snaps, err)
	}
	return snaps[0].Name()
}

// recover brings one session back on a root, as the document says, and has it run to its
// end.
func (f *fixture) recover(t *testing.T, lineage, root string) {
	work, err := os.MkdirTemp("/dev/shm", "diapause-recovered-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(work) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"/usr/bin/python3", f.script, lineage, only(t, lineage), f.identity, work, root, local.Criu())
	cmd.Env = []string{"PATH=" + filepath.Join(f.dir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	count, err := exec.CommandContext(ctx, "/sbin/debugfs", "-R", "cat upper/tmp/count", filepath.Join(work, "layer.img")).Output()
	if err != nil {
		t.Fatal(err)
	}
	secret := ""
	lines := strings.Split(strings.TrimSpace(string(count)), "\n")
	for i, line := range lines {
		n, rest, _ := strings.Cut(line, " ")
		if secret == "" {
			secret = rest
		}
		if n != fmt.Sprint(i+1) || rest != secret || secret == "" {
			t.Fatalf("line %d is %q, the secret %q; all:\n%s", i+1, line, secret, count)
		}
	}
	if want := fmt.Sprintf("ended at %d %s", len(lines), secret); !strings.Contains(string(out), want) {
		t.Errorf("it printed, without %q:\n%s", want, out)
	}
}

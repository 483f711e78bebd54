package attack

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// trap is what a session prepares for a verb that is asked of it from the host.
type trap struct {
	what, want string
	prepare    string   // a script that the session runs; KEY is a secret file, BAIT a directory of the host
	verb       []string // what is asked then
	// refused tells from the answer whether the trap failed.
	refused func(g *target, r stack.Result) bool
}

// own is the name of the session that sets them.
const own = "in-host"

// racing has a directory be a symlink to the host's keys, and to bait, as often as the machine lets it.
const racing = `mkdir -p /tmp/race.d; touch /tmp/race.d/x; ln -sfn KEY/.. /tmp/race.l; ln -sfn BAIT /tmp/race.b
setsid sh -c 'while :; do ln -sfn race.d /tmp/race; ln -sfn race.l /tmp/race; ln -sfn race.b /tmp/race; done' >/dev/null 2>&1 </dev/null &
until [ -e /tmp/race ]; do :; done`

// traps lists them all.
func traps() []trap {
	failed := func(g *target, r stack.Result) bool {
		_, err := os.Lstat(g.fill("BACK"))
		return r.Code != 0 && !strings.Contains(r.Out, "AGE-SECRET") && os.IsNotExist(err)
	}
	linked := func(g *target, r stack.Result) bool {
		to, err := os.Readlink(g.fill("BACK"))
		return err == nil && to == g.facts.Secrets[0] && os.Remove(g.fill("BACK")) == nil
	}
	untouched := func(name string) func(*target, stack.Result) bool {
		return func(g *target, _ stack.Result) bool {
			_, err := os.Lstat(filepath.Join(g.facts.Bait, name))
			return os.IsNotExist(err)
		}
	}
	// What comes back stands below the target alone, and soon.
	bounded := func(g *target, r stack.Result) bool {
		beside, err := os.ReadDir(filepath.Dir(g.fill("BACK")))
		for _, e := range beside {
			if n := e.Name(); n == "..x" || n == "b" || n == "z" || n == "-rf" {
				return false
			}
		}
		return err == nil && os.RemoveAll(g.fill("BACK")) == nil
	}
	secretless := func(g *target, r stack.Result) bool {
		for range 20 {
			if _, err := os.Stat(g.fill("BACK/identity.txt")); err == nil || strings.Contains(r.Out, "AGE-SECRET") {
				return false
			}
			if os.RemoveAll(g.fill("BACK")) != nil {
				return false
			}
			r = g.Do("cp", own+":/tmp/race", g.fill("BACK"))
		}
		return os.RemoveAll(g.fill("BACK")) == nil
	}
	plain := func(_ *target, r stack.Result) bool {
		return r.Code == 0 && !strings.ContainsAny(r.Out+r.Err, "\x1b\x07")
	}
	return []trap{
		{"cp out of a symlink to the host's keys", "the symlink", `ln -sf KEY /tmp/trap`, []string{"cp", own + ":/tmp/trap", "BACK"}, linked},
		{"cp out of a directory that is a symlink to the host's", "no such file", `ln -sfn KEY/.. /tmp/keys`, []string{"cp", own + ":/tmp/keys/identity.txt", "BACK"}, failed},
		{"cp out of /proc/1/root", "too many symbolic links", ``, []string{"cp", own + ":/proc/1/rootKEY", "BACK"}, failed},
		{"cp out of a directory whose name leads up", "no such file", ``, []string{"cp", own + ":/tmp/../../../../../KEY", "BACK"}, failed},
		{"cp into a symlink to a directory of the host", "its own copy", `ln -sfn BAIT /tmp/out`, []string{"cp", "/etc/hostname", own + ":/tmp/out/copied"}, untouched("copied")},
		{"cp into a symlink to a file of the host", "its own copy", `ln -sf BAIT/linked /tmp/in`, []string{"cp", "/etc/hostname", own + ":/tmp/in"}, untouched("linked")},
		{"exec in a working directory that is the data directory", "no such directory", `ln -sfn KEY/.. /tmp/cwd`, []string{"exec", "--cwd", "/tmp/cwd", own, "--", "cat", "identity.txt"}, failed},
		{"exec as a user of a passwd file of its own", "its own root", `cp /etc/passwd /tmp/p; echo 'toor::0:0::/:KEY' >>/etc/passwd`, []string{"exec", "--user", "toor", own, "--", "cat", "KEY"}, failed},
		{"escape sequences in the name of a process, in explain", "escaped", `(exec -a "$(printf 'x\033]0;owned\007')" sleep 1000) & :`, []string{"explain", own}, plain},
		{"escape sequences in arguments, in ls and show", "escaped", ``, []string{"show", "esc"}, plain},
		{"a session's arguments with escape sequences, in history", "escaped", ``, []string{"history", "esc"}, plain},
		{"cp out of a pipe that has no writer", "kept as a pipe, or refused", `mkfifo /tmp/pipe`, []string{"cp", own + ":/tmp/pipe", "BACK"}, bounded},
		{"cp out of a socket", "kept as a socket, or refused", `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/tmp/sock", Listen => 1)'`, []string{"cp", own + ":/tmp/sock", "BACK"}, bounded},
		{"cp out of a link to itself", "the symlink, or refused", `ln -sfn loop /tmp/loop`, []string{"cp", own + ":/tmp/loop", "BACK"}, bounded},
		{"cp out of files whose names lead up or have line ends", "below the target", `mkdir -p /tmp/n; cd /tmp/n; touch -- '..x' $'a\n..\nb' '-rf' '\\..\\z'`, []string{"cp", own + ":/tmp/n", "BACK"}, bounded},
		{"cp out of a directory that becomes a symlink again and again", "no file of the host's", racing, []string{"cp", own + ":/tmp/race", "BACK"}, secretless},
		{"cp into the same", "no file of the host's", ``, []string{"cp", "/etc/hostname", own + ":/tmp/race/raced"}, untouched("raced")},
		{"a core dump", "none on the host", `ulimit -c unlimited; cd BAIT; sh -c 'kill -SEGV $$'; :`, []string{"exec", own, "--", "true"}, untouched("core")},
	}
}

// adoptions try to have the process of a session be another one's: LEADER is the first of the session esc.
func adoptions() []trap {
	kept := func(g *target, r stack.Result) bool {
		v, err := g.View("esc")
		return r.Code == 1 && strings.Contains(r.Out+r.Err, "a session of Diapause already") && !strings.ContainsAny(r.Out+r.Err, "\x1b\x07") &&
			err == nil && v.State == schemas.Running
	}
	return []trap{
		{"adopt a session's first process, to have it without the session's walls", "refused by name", ``, []string{"adopt", "--pid", "LEADER", "--name", "taken"}, kept},
		{"a session's arguments with escape sequences, in adopt --dry-run", "escaped", ``, []string{"adopt", "--dry-run", "--pid", "LEADER"}, kept},
	}
}

// resumes are what a session prepares before it is suspended, for the files that its resume writes.
func resumes() []trap {
	kept := func(g *target, r stack.Result) bool {
		text, err := os.ReadFile(filepath.Join(g.facts.Bait, BaitFile))
		return r.Code == 0 && err == nil && string(text) == "bait"
	}
	return []trap{
		{"a resume with resolv.conf a symlink to a file of the host", "its own copy", `ln -sf BAIT/file /etc/resolv.conf`, nil, kept},
		{"a resume with the generation file a symlink to a file of the host", "its own copy", `ln -sf BAIT/file /run/diapause/generation`, nil, kept},
		{"a resume with resolv.conf a symlink through /proc/1/root", "its own copy", `ln -sf /proc/1/root/BAIT/file /etc/resolv.conf`, nil, kept},
		{"a resume with a directory of Diapause's a symlink", "its own copy", `mv /run/diapause /run/d; ln -s BAIT /run/diapause`, nil, kept},
	}
}

func (g *target) traps(t *testing.T) {
	g.verb("run", "--name", "esc", "--network", "none", "--idle", "never", "--", "sh", "-c", "sleep 100000", "\x1b]0;owned\x07")
	esc, err := g.View("esc")
	g.must(err)
	leader := strings.NewReplacer("LEADER", strconv.Itoa(esc.PID))
	for _, c := range append(traps(), adoptions()...) {
		t.Run(c.what, func(t *testing.T) {
			if c.prepare != "" {
				g.verb("exec", own, "--", "bash", "-c", g.fill(c.prepare))
			}
			var args []string
			for _, a := range c.verb {
				args = append(args, leader.Replace(g.fill(a)))
			}
			if r := g.Do(args...); !c.refused(g, r) {
				t.Errorf("%v: exit status %d\n%s%s", args, r.Code, r.Out, r.Err)
			}
		})
	}
	// Two files at a time: a resume takes a while.
	g.verb("run", "--name", "trap", "--network", private, "--idle", "never", "--", "sleep", "100000")
	for pair := range slices.Chunk(resumes(), 2) {
		for _, c := range pair {
			g.verb("exec", "trap", "--", "bash", "-c", g.fill(c.prepare))
		}
		g.verb("suspend", "trap")
		r := g.Do("resume", "trap")
		for _, c := range pair {
			if !c.refused(g, r) {
				t.Errorf("%s: exit status %d\n%s%s", c.what, r.Code, r.Out, r.Err)
			}
		}
	}
}

func (g *target) fill(script string) string {
	return strings.NewReplacer("KEY", g.facts.Secrets[0], "BAIT", g.facts.Bait, "BACK", filepath.Join(g.dir, "back")).Replace(script)
}

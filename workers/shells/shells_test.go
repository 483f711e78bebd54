package shells

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/marks"
)

// limit is generous: a machine may be busy.
const limit = 2 * time.Minute

// ready is what the prompt of all shells is.
const ready = "ready:"

// forAll is, below the folder of a dialogue, the file that zsh reads before any of the user's.
const forAll = "etc/zshenv"

// dialogue is a shell in a terminal.
type dialogue struct {
	t      *testing.T
	master *os.File
	dir    string
	done   chan error

	mu   sync.Mutex
	more *sync.Cond
	all  []byte
	seen int
	over bool
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Not by Fd, after which Close doesn't end a Read.
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	callErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
		}
	})
	if err = errors.Join(err, callErr); err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// start starts a shell as Integrate says, whose files are in dir.
func start(t *testing.T, argv []string, files map[string]string, env ...string) *dialogue {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files[".local/share/fish/generated_completions/none"] = "" // so that fish doesn't read all manuals
	place := func(path, content string) {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		place(filepath.Join(dir, name), content)
	}
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm", "LC_ALL=C.UTF-8"}, env...)
	s, ok := Integrate(argv, env)
	if !ok {
		s = Shell{Argv: argv, Env: env}
	}
	inside := func(text string) string { return strings.ReplaceAll(text, Folder, filepath.Join(dir, "shells")) }
	for path, content := range s.Files {
		place(inside(path), string(content))
	}
	for _, list := range []*[]string{&s.Argv, &s.Env} {
		for i, v := range *list {
			(*list)[i] = inside(v)
		}
	}
	d := &dialogue{t: t, dir: dir, done: make(chan error, 1)}
	d.more = sync.NewCond(&d.mu)
	var slave *os.File
	d.master, slave = openTerminal(t)
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	unshared := 0
	if _, all := files[forAll]; all { // seen by this shell alone
		s.Argv = append([]string{"sh", "-c", `mount --bind "$0" /etc/zsh/zshenv && exec "$@"`, filepath.Join(dir, forAll)}, s.Argv...)
		cmd, unshared = exec.Command(s.Argv[0], s.Argv[1:]...), syscall.CLONE_NEWNS
	}
	cmd.Env, cmd.Dir = s.Env, dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Unshareflags: uintptr(unshared)}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (e2e/setup/test.sh installs what tests need)", err)
	}
	slave.Close()
	go d.read()
	go func() { d.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		d.master.Close()
	})
	return d
}

func (d *dialogue) read() {
	b := make([]byte, 4096)
	for {
		n, err := d.master.Read(b)
		d.mu.Lock()
		d.all, d.over = append(d.all, b[:n]...), err != nil
		d.more.Broadcast()
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits for a text after the one that was waited for last.
func (d *dialogue) expect(text string) {
	d.t.Helper()
	late := time.AfterFunc(limit, func() { d.master.Close() })
	defer late.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if i := bytes.Index(d.all[d.seen:], []byte(text)); i >= 0 {
			d.seen += i + len(text)
			return
		}
		if d.over {
			d.t.Fatalf("%q doesn't come; it shows %q", text, d.all)
		}
		d.more.Wait()
	}
}

// types types lines, each at a prompt.
func (d *dialogue) types(lines ...string) {
	d.t.Helper()
	for _, l := range lines {
		d.expect(ready)
		if _, err := d.master.WriteString(l + "\r"); err != nil {
			d.t.Fatal(err)
		}
	}
}

// ends ends the shell, and gives its commands and all that it showed.
func (d *dialogue) ends() (commands []string, shown string) {
	d.t.Helper()
	d.types("exit 7")
	select {
	case <-d.done:
	case <-time.After(limit):
		d.t.Fatal("the shell doesn't end")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.over {
		d.more.Wait()
	}
	var tracker marks.Tracker
	tracker.Write(d.all, 0, time.Now(), "", func(c marks.Command) {
		if c.Running() || c.Exit == nil {
			return
		}
		out := strings.NewReplacer("\r\n", "|", d.dir, "~").Replace(string(d.all[c.From:c.To]))
		commands = append(commands, fmt.Sprintf("%s in %s: %d, %s", c.Text, strings.Replace(c.Dir, d.dir, "~", 1), *c.Exit, out))
	})
	return commands, string(d.all)
}

func (d *dialogue) wants(want ...string) {
	d.t.Helper()
	got, shown := d.ends()
	if !reflect.DeepEqual(got, want) {
		d.t.Errorf("the commands are\n%q, want\n%q; it showed\n%q", got, want, shown)
	}
}

// What isn't an interactive shell is started as it was.
func TestLeftAlone(t *testing.T) {
	for _, argv := range [][]string{nil, {"sh"}, {"bash", "-c", "x"}, {"bash", "-l"}, {"-bash"}, {"bash", "script"}, {"bash", "--norc"}, {"zsh", "-f"}, {"fish", "-c", "x"}, {"fish", "-N"}, {"dash", "-i"}} {
		if s, ok := Integrate(argv, nil); ok {
			t.Errorf("%q becomes %q", argv, s.Argv)
		}
	}
	env := []string{"ZDOTDIR=/a", "B=c"}
	if s, ok := Integrate([]string{"/bin/zsh", "-l"}, env); !ok || env[0] != "ZDOTDIR=/a" || !reflect.DeepEqual(s.Env, []string{"DIAPAUSE_ZDOTDIR=/a", "B=c", "ZDOTDIR=" + Folder + "/zsh"}) {
		t.Errorf("zsh has %q", s.Env)
	}
}

const bashrc = "PS1=" + ready + "\n"

func TestBash(t *testing.T) {
	d := start(t, []string{"bash"}, map[string]string{".bashrc": bashrc + "HISTCONTROL=ignoreboth\nFROM=rc\n"})
	d.types(`printf '%s\n' $FROM "a;b\\"`, "(exit 3)", "(exit 3)", " echo secret", "", "cd /", "for i in 1 2; do\recho $i; done", "echo $HISTCONTROL", "history")
	d.wants(`printf '%s\n' $FROM "a;b\\" in ~: 0, rc|a;b\|`, "(exit 3) in ~: 3, ", "(exit 3) in ~: 3, ", "cd / in ~: 0, ", "for i in 1 2; do echo $i; done in /: 0, 1|2|",
		"echo $HISTCONTROL in /: 0, ignorespace|", "history in /: 0,     1  printf '%s\\n' $FROM \"a;b\\\\\"|    2  (exit 3)|    3  cd /|    4  for i in 1 2; do echo $i; done|    5  echo $HISTCONTROL|    6  history|")
}

// However commands are kept out of the history, or in it, those with a space aren't recorded, and nothing is recorded with the text of another.
func TestBashHistory(t *testing.T) {
	for control, want := range map[string][]string{
		"":                                 {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=ignorespace":          {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=ignoredups":           {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=ignoreboth":           {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=erasedups":            {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=ignoreboth:erasedups": {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTCONTROL=erasedups:ignorespace:ignoredups": {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTIGNORE='fal*'":                            {"true in ~: 0, ", "true in ~: 0, "},
		"set +o history":                               nil,
		"HISTTIMEFORMAT='%F %T; '":                     {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"readonly HISTCONTROL=":                        {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"HISTSIZE=2":                                   {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
		"PS0='<ps0>'; shopt -s lithist":                {"true in ~: 0, ", "true in ~: 0, ", "false in ~: 1, "},
	} {
		t.Run(control, func(t *testing.T) {
			t.Parallel()
			d := start(t, []string{"bash", "-i"}, map[string]string{".bashrc": bashrc + control + "\n"})
			d.types("true", "true", "\x20true", "\x20echo secret", "false")
			d.wants(want...)
		})
	}
}

// The user's own PROMPT_COMMAND sees what the command left, in all its forms. Neither $_ nor set -e, -u or -x break anything.
func TestBashPromptCommand(t *testing.T) {
	const own = `echo "<$? ${PIPESTATUS[*]}>"`
	for name, rc := range map[string]string{
		"string": "PROMPT_COMMAND='" + own + "'\n",
		"array":  "PROMPT_COMMAND=(true '" + own + "')\n",
		"older":  "__diapause_string=1; PROMPT_COMMAND='" + own + "'\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, []string{"bash"}, map[string]string{".bashrc": bashrc + rc})
			d.types("false | true | (exit 3)")
			d.expect("<3 1 0 3>")
			d.types("false | true")
			d.expect("<0 1 0>")
			d.types("trap 'echo ERR' ERR; set -euo pipefail")
			d.expect("<0 0>")
			d.types("echo a_b")
			d.expect("<0 0>")
			d.types("echo $_.$_")
			d.expect("<0 0>")
			got, shown := d.ends()
			if strings.Contains(shown, "ERR\r") || strings.Contains(shown, "unbound") || len(got) != 5 {
				t.Errorf("it shows %q", shown)
			}
			if name != "older" && !strings.Contains(shown, "a_b.a_b\r") {
				t.Errorf("$_ is another; it shows %q", shown)
			}
		})
	}
}

// Nothing that is amiss in the shell shows in its terminal, but for what it complains about itself.
func TestBashComplaints(t *testing.T) {
	for rc, want := range map[string]int{
		"readonly HISTTIMEFORMAT=":                       2,
		"readonly HISTTIMEFORMAT='%F '":                  0,
		"readonly PS0":                                   0,
		"readonly PS0=":                                  0,
		"set -r":                                         0,
		"readonly PROMPT_COMMAND=":                       0,
		"set -u; readonly PROMPT_COMMAND":                0,
		"set -u":                                         2,
		"set -u; __diapause_string=1":                    2,
		"PROMPT_COMMAND=true; __diapause_string=1":       2,
		"readonly PROMPT_COMMAND=x; __diapause_string=1": 0,
		"missing=1":                                      2,
	} {
		t.Run(rc, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{".bashrc": bashrc + strings.Replace(rc, "=x", "=", 1) + "\n"}
			var env []string
			if rc == "missing=1" {
				env = []string{"LC_ALL=xx_XX.UTF-8"}
			}
			d := start(t, []string{"bash"}, files, env...)
			d.types("false | true", `echo "[$? ${PIPESTATUS[*]}]"`)
			got, shown := d.ends()
			_, shown, _ = strings.Cut(shown, ready)
			if len(got) != want || !strings.Contains(shown, "[0 1 0]\r") || strings.Contains(shown, "bash:") {
				t.Errorf("the commands are %q; it shows %q", got, shown)
			}
		})
	}
}

// A shell that is restricted later shows nothing of that, either.
func TestBashRestricted(t *testing.T) {
	for _, rc := range []string{"", "__diapause_string=1\nPROMPT_COMMAND=true\n"} {
		d := start(t, []string{"bash"}, map[string]string{".bashrc": bashrc + rc})
		d.types("set -r", "false | true", `echo "[$? ${PIPESTATUS[*]}]"`)
		if got, shown := d.ends(); len(got) != 0 || !strings.Contains(shown, "[0 1 0]\r") || strings.Contains(shown, "bash:") {
			t.Errorf("the commands are %q; it shows %q", got, shown)
		}
	}
}

// A command that isn't in the history hasn't the text of one that the user's own PROMPT_COMMAND reads from another shell.
func TestBashOtherShells(t *testing.T) {
	for _, older := range []string{"", "__diapause_string=1\n"} {
		d := start(t, []string{"bash"}, map[string]string{".bash_history": "first\n",
			".bashrc": bashrc + older + "HISTFILE=~/.bash_history HISTCONTROL=ignorespace\nPROMPT_COMMAND='history -a; n=$((n + 1)); echo other-$n >>~/.bash_history; history -n'\n"})
		d.types("true", " echo secret", "false", " echo secret")
		d.wants("true in ~: 0, ", "false in ~: 1, ")
	}
}

// A shell that shows nothing is given up.
func TestTerminalCloses(t *testing.T) {
	master, slave := openTerminal(t)
	defer slave.Close()
	time.AfterFunc(time.Millisecond, func() { master.Close() })
	if _, err := master.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read ends with %v", err)
	}
}

// What is exported to other shells does nothing there.
func TestBashLeaks(t *testing.T) {
	for _, older := range []string{"", "__diapause_string=1\n"} {
		d := start(t, []string{"bash"}, map[string]string{".bashrc": bashrc + older + "PROMPT_COMMAND='echo own'\n"})
		d.types("export PROMPT_COMMAND PS0 PS1", "HOME=/none bash --norc -u", "echo in-child", "exit")
		d.expect("exit")
		got, shown := d.ends()
		if strings.Contains(shown, "not found") || strings.Contains(shown, "unbound") || !strings.Contains(shown, "in-child\r") || len(got) != 2 {
			t.Errorf("it shows %q", shown)
		}
	}
}

func TestZsh(t *testing.T) {
	files := map[string]string{".zshenv": "FROM=env\n", ".zshrc": "PS1=" + ready + "\nsetopt hist_ignore_space hist_ignore_dups\nHISTSIZE=100\nunset zle_bracketed_paste\n"}
	for _, setting := range []string{"", "setopt nounset errexit\n", "setopt xtrace 2>/dev/null; unsetopt xtrace\n", "setopt no_prompt_cr\n"} {
		files[".zshrc"] += setting
		d := start(t, []string{"zsh"}, files)
		d.types(`print -r -- $FROM ${ZDOTDIR-none} 'a;b\'`, "true", "true", " print secret", "cd /", "printf part")
		d.wants(`print -r -- $FROM ${ZDOTDIR-none} 'a;b\' in ~: 0, env none a;b\|`, "true in ~: 0, ", "true in ~: 0, ", "cd / in ~: 0, ", "printf part in /: 0, part")
	}
}

// A ZDOTDIR of the user's own is used, and is what programs see.
func TestZdotdir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".zshrc"), []byte("PS1="+ready+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := start(t, []string{"zsh", "-i"}, map[string]string{}, "ZDOTDIR="+dir)
	d.types("false", "sh -c 'echo $ZDOTDIR$DIAPAUSE_ZDOTDIR'")
	d.wants("false in ~: 1, ", "sh -c 'echo $ZDOTDIR$DIAPAUSE_ZDOTDIR' in ~: 0, "+dir+"|")
}

// A trap of the user's own runs for the user's own commands, and nothing else; what the marks need goes on.
func TestZshTraps(t *testing.T) {
	for name, trap := range map[string]string{
		"list":     "trap 'seen+=(d)' DEBUG\ntrap 'failed+=(z)' ZERR\n",
		"function": "TRAPDEBUG() { seen+=(d) }\nTRAPZERR() { failed+=(z) }\n",
		"after":    "setopt no_debug_before_cmd\ntrap 'seen+=(d)' DEBUG\ntrap 'failed+=(z)' ZERR\n",
	} {
		for when, rc := range map[string]string{"in a file": trap, "later": ""} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				files := map[string]string{"trap": trap, ".zshrc": "PS1=" + ready + "\nunset zle_bracketed_paste\nzle -D zle-line-init zle-line-finish 2>/dev/null\nseen=() failed=()\n" + rc + "seen=()\n"}
				d := start(t, []string{"zsh"}, files)
				if rc == "" {
					d.types("true", "source ~/trap; seen=()")
				}
				d.types("seen=()", "false", "print $#seen $#failed", "printf part", "trap - DEBUG ZERR", "print $#seen")
				got, shown := d.ends()
				for i := range got { // where a trap is there from the beginning, output goes on to what zsh itself shows of a line without an end
					got[i], _, _ = strings.Cut(got[i], "\x1b[1m\x1b[7m")
				}
				want := []string{"seen=() in ~: 0, ", "false in ~: 1, ", "print $#seen $#failed in ~: 0, 2 1|", "printf part in ~: 0, part", "trap - DEBUG ZERR in ~: 0, ", "print $#seen in ~: 0, 4|"}
				if rc == "" {
					want = append([]string{"true in ~: 0, ", "source ~/trap; seen=() in ~: 0, "}, want...)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("the commands are\n%q, want\n%q; it showed\n%q", got, want, shown)
				}
			})
		}
	}
}

// A file for all users that says where the user's files are says it as without marks: there are none, then.
func TestZdotdirForAll(t *testing.T) {
	for name, c := range map[string]struct {
		all   string
		env   []string
		marks int
	}{
		"unless it is set": {"[[ -n $ZDOTDIR ]] || export ZDOTDIR=$HOME/own; export OF=$ZDOTDIR", nil, 0},
		"with a guard":     {"if [[ -z $GUARD ]]; then export GUARD=1; : ${ZDOTDIR:=$HOME/own}; fi; export OF=$ZDOTDIR", nil, 0},
		"in any case":      {"ZDOTDIR=$HOME/own; export OF=$ZDOTDIR", nil, 0},
		"the user's own":   {": ${ZDOTDIR:=$HOME/none}; export OF=$ZDOTDIR", []string{"ZDOTDIR=own"}, 0},
		"in a comment":     {"# ZDOTDIR says where files are.\nHOME=$HOME/own", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, []string{"zsh", "-l"}, map[string]string{
				forAll: c.all + "\nexport PATH=$PATH:/of-all\n", "own/.zshenv": "ENV=read\n", "own/.zshrc": "PS1=" + ready + "\nunset zle_bracketed_paste\n",
			}, append(c.env, "ODD=a b;\nc", "EMPTY=")...)
			d.types(`n=(${(M)path:#/of-all}); print -r -- "[$ENV|${OF#$HOME/}|$ODD|$#n|$options[login]|${+EMPTY}|$(env | grep -c DIAPAUSE)]"`)
			d.expect("]")
			got, shown := d.ends()
			want := "[read|own|a b;\r\nc|1|on|1|0]\r"
			if c.marks > 0 {
				want = strings.Replace(want, "|own|", "||", 1)
			}
			if len(got) != c.marks || !strings.Contains(shown, want) {
				t.Errorf("it showed %q, and the commands are %q", shown, got)
			}
		})
	}
}

func TestFish(t *testing.T) {
	d := start(t, []string{"fish"}, map[string]string{".config/fish/config.fish": "set -g FROM rc\nset -g fish_greeting\nfunction fish_prompt; echo " + ready + "; end\nfunction fish_title; end\n"})
	d.types(`printf '%s\n' $FROM 'a;b\\'`, "false", " echo secret", "cd /", "sh -c 'exit 3'")
	got, shown := d.ends()
	for i, want := range []string{`printf '%s\n' $FROM 'a;b\\' in ~: 0, `, "false in ~: 1, ", "cd / in ~: 0, ", "sh -c 'exit 3' in /: 3, "} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) || i == 0 && !strings.Contains(got[i], "rc|a;b\\|") {
			t.Fatalf("the commands are %q; it showed %q", got, shown)
		}
	}
}

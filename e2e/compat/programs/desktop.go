package programs

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Desktop is what makes a program one that is run by `diapause desktop`.
type Desktop struct {
	App      string // of --app
	Expected string // what earlier designs expected to be taken while it runs and while it sleeps, in MB; "" if they say nothing
}

// Desktops makes the desktops that are measured.
func Desktops() []Program {
	return []Program{Bare(), Light(), ChromiumDesktop(), FirefoxDesktop(), GTK(), Qt()}
}

const display = "Xvnc"

// desktop makes the program of a desktop whose state is known by functions.
func desktop(name, state string, d Desktop, version string, command ...string) Program {
	return Program{
		Name: name, State: state, Desktop: &d, Needs: []string{display, "openbox", "dbus-daemon"}, Command: command,
		Flags: []string{"--env", "HOME=/tmp/home"}, Version: []string{"sh", "-c", version},
		Prepare: func(context.Context, *local.Session) error { return nil },
		Check:   func(context.Context, *local.Session, Round) error { return nil },
	}
}

// Bare is a display with nothing on it.
func Bare() Program {
	p := desktop("display alone", "every pixel of an empty screen", Desktop{Expected: "50→20"}, "Xvnc -version 2>&1", "sleep", "infinity")
	b := &still{}
	p.Prepare, p.Check = b.prepare, func(ctx context.Context, s *local.Session, _ Round) error { return b.check(ctx, s) }
	return p
}

// still is a desktop on which nothing moves.
type still struct{ was []byte }

func (d *still) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -e /tmp/.diapause-desktop/managed"); err != nil {
		return err
	}
	var err error
	d.was, err = s.Picture(ctx)
	return err
}

func (d *still) check(ctx context.Context, s *local.Session) error {
	is, err := s.Picture(ctx)
	if err == nil && !slices.Equal(is, d.was) {
		err = fmt.Errorf("the screen isn't what it was")
	}
	return err
}

// Light is a terminal in which a program counts.
func Light() Program {
	p := desktop("xterm", "a program in a terminal counts on", Desktop{App: "xterm"}, "xterm -version",
		"-e", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; echo $i >/tmp/next; mv /tmp/next /tmp/count; sleep 0.1; done")
	last := 0
	counts := func(ctx context.Context, s *local.Session) error {
		out, err := s.Until(ctx, patience, fmt.Sprintf(`n=$(cat /tmp/count) && [ "$n" -gt %d ] && echo "$n"`, last+3))
		if err != nil {
			return fmt.Errorf("it doesn't count on from %d: %w", last, err)
		}
		_, err = fmt.Sscan(out, &last)
		return err
	}
	p.Prepare, p.Check = counts, func(ctx context.Context, s *local.Session, _ Round) error { return counts(ctx, s) }
	return p
}

// GTK and Qt are editors, each of one of the two toolkits.
func GTK() Program { return editor("mousepad, of GTK", "mousepad") }

// Qt is the other one.
func Qt() Program { return editor("featherpad, of Qt", "featherpad") }

// editor makes a desktop with an editor, into which lines are typed and saved by a VNC client.
func editor(name, command string) Program {
	p := desktop(name, "what was typed before, and what is typed after each resume, saved by the editor itself", Desktop{}, command+" --version",
		"sh", "-c", ": >/tmp/text; exec "+command+" /tmp/text")
	p.Needs = append(p.Needs, command)
	typed := ""
	types := func(ctx context.Context, s *local.Session, line string) error {
		if err := s.Type(ctx, line+"\n\x13"); err != nil {
			return fmt.Errorf("type a line: %w", err)
		}
		typed += line + "\n"
		if out, err := s.Until(ctx, patience, `[ "$(cat /tmp/text)" = '`+strings.TrimSuffix(typed, "\n")+`' ]`); err != nil {
			has, _ := s.Shell(ctx, "cat /tmp/text")
			return fmt.Errorf("the editor has %q, want %q: %w: %s", has, typed, err, out)
		}
		return nil
	}
	p.Prepare = func(ctx context.Context, s *local.Session) error {
		if _, err := s.Until(ctx, patience, "xdotool search --onlyvisible --name text"); err != nil {
			return err
		}
		return types(ctx, s, "before")
	}
	p.Check = func(ctx context.Context, s *local.Session, r Round) error {
		return types(ctx, s, fmt.Sprintf("round %d", r.N))
	}
	p.Needs = append(p.Needs, "xdotool")
	return p
}

var (
	//go:embed tabs.html
	tabsHTML string
	//go:embed tabs.py
	tabsPython string
)

// tabsState is what is looked at in browsers.
const tabsState = "three tabs, none of them loaded again: timers, 50,000 strings in memory, a WebSocket inside the session that is never opened again, localStorage and IndexedDB that each writes after each resume"

// The commands that open a page in a browser that runs.
const (
	inFirefox  = "firefox-esr --profile /tmp/home/.diapause-desktop/firefox"
	inChromium = "chromium --no-sandbox --test-type --disable-gpu --user-data-dir=/tmp/home/.diapause-desktop/chromium"
)

// FirefoxDesktop is Firefox with several tabs.
func FirefoxDesktop() Program {
	return browserDesktop("Firefox, 3 tabs", Desktop{App: "firefox", Expected: "500→200"}, "firefox-esr", inFirefox, "(socke[t]|rd[d]|forkserve[r])$")
}

// ChromiumDesktop is Chromium with several tabs.
func ChromiumDesktop() Program {
	return browserDesktop("Chromium, 3 tabs", Desktop{App: "chromium", Expected: "200→80"}, "chromium", inChromium, "top-chrome-webu[i]")
}

// browserDesktop makes a browser's; unneeded matches the processes that --app has it do without, and not the search for them.
func browserDesktop(name string, d Desktop, needs, opens, unneeded string) Program {
	p := desktop(name, tabsState, d, needs+" --version", "about:blank")
	p.Needs = append(p.Needs, needs, python)
	t := &tabs{opens: []string{opens, opens, opens}, unneeded: unneeded}
	p.Prepare, p.Check = t.prepare, t.check
	return p
}

// tabs are pages that are open in browsers.
type tabs struct {
	opens    []string // the command that opens each of them
	unneeded string   // matches the processes that there must be none of
	last     []tab
}

// tab is what one of them tells.
type tab struct {
	Boot     string `json:"boot"` // another one whenever it is loaded
	Ticks    int64  `json:"ticks"`
	Messages int64  `json:"messages"`
	Rows     []int  `json:"rows"` // of IndexedDB
	Local    []int  `json:"local"`
	Whole    bool   `json:"whole"`  // what it has in memory is there
	Opened   int    `json:"opened"` // WebSockets, as the server counts them
	Error    string `json:"error"`
}

// has reports whether a tab has written the numbers up to last.
func (t tab) has(last int) bool {
	var want []int
	for n := range last {
		want = append(want, n+1)
	}
	return slices.Equal(t.Rows, want) && slices.Equal(t.Local, want)
}

// tabWait bounds the wait for a tab that isn't visible: browsers let its timers run once in a minute.
const tabWait = 2 * patience

func (t *tabs) prepare(ctx context.Context, s *local.Session) error {
	for name, text := range map[string]string{"tabs.py": tabsPython, "tabs.html": tabsHTML} {
		if _, err := s.Exec(ctx, text, "sh", "-c", "cat >/tmp/"+name); err != nil {
			return err
		}
	}
	if err := t.begin(ctx, s, "python3 /tmp/tabs.py /tmp/tabs.html"); err != nil {
		return err
	}
	if _, err := s.Until(ctx, patience, `python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8000/empty")'`); err != nil {
		return err
	}
	for i, opens := range t.opens {
		is, err := t.opened(ctx, s, i+1, opens)
		if err != nil {
			return err
		}
		t.last = append(t.last, is)
	}
	return nil
}

// begin has a command run in the session, for as long as that.
func (t *tabs) begin(ctx context.Context, s *local.Session, command string) error {
	_, err := s.Shell(ctx, "setsid "+command+" >>/tmp/begin.out 2>&1 </dev/null &")
	return err
}

// opened opens a tab. A browser that has only just started may not do so: it is asked again then.
func (t *tabs) opened(ctx context.Context, s *local.Session, n int, opens string) (tab, error) {
	var err error
	for range 3 {
		if err := t.begin(ctx, s, fmt.Sprintf("%s 'http://127.0.0.1:8000/?%d'", opens, n)); err != nil {
			return tab{}, err
		}
		var is tab
		if is, err = t.until(ctx, s, n, patience, func(is tab) bool { return is.Ticks > 0 && is.Messages > 1 }); err == nil {
			return is, nil
		}
	}
	said, _ := s.Shell(ctx, "tail -n 5 /tmp/begin.out")
	return tab{}, fmt.Errorf("open tab %d: %w: %s", n, err, said)
}

// until waits until a tab tells what is wanted.
func (t *tabs) until(ctx context.Context, s *local.Session, n int, wait time.Duration, wanted func(tab) bool) (is tab, err error) {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		var out string
		if out, err = s.Shell(ctx, fmt.Sprintf("cat /tmp/told.%d", n)); err == nil {
			is = tab{}
			if err = json.Unmarshal([]byte(out), &is); err != nil {
				return is, fmt.Errorf("read what tab %d tells: %w", n, err)
			}
			if wanted(is) {
				return is, nil
			}
			err = fmt.Errorf("tab %d tells %s", n, out)
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return is, err
		}
	}
}

func (t *tabs) check(ctx context.Context, s *local.Session, r Round) error {
	if _, err := s.Shell(ctx, fmt.Sprintf("echo %d >/tmp/next.write && mv /tmp/next.write /tmp/write", r.N)); err != nil {
		return err
	}
	if out, _ := s.Shell(ctx, "pgrep -af '"+t.unneeded+"'"); strings.TrimSpace(out) != "" { // it fails if it finds none
		return fmt.Errorf("a process that isn't needed is captured: %s", out)
	}
	for i, was := range t.last {
		is, err := t.until(ctx, s, i+1, tabWait, func(is tab) bool {
			return is.has(r.N) && is.Ticks > was.Ticks && is.Messages > was.Messages || is.Error != ""
		})
		switch {
		case err != nil:
			return fmt.Errorf("it was %+v: %w", was, err)
		case is.Boot != was.Boot || is.Opened != was.Opened || !is.Whole || is.Error != "":
			return fmt.Errorf("tab %d was %+v and is %+v", i+1, was, is)
		}
		t.last[i] = is
	}
	return nil
}

package programs

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.py
	pagePython string
)

// Firefox is Firefox without a window, and with its inner sandboxes off, which are
// namespaces that CRIU can't dump.
func Firefox() Program {
	var env []string
	for _, variable := range []string{
		"MOZ_DISABLE_CONTENT_SANDBOX=1", "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX=1", "MOZ_DISABLE_RDD_SANDBOX=1", "MOZ_DISABLE_GMP_SANDBOX=1",
		"MOZ_DISABLE_UTILITY_SANDBOX=1", "MOZ_ASSUME_USER_NS=0", "MOZ_DISABLE_FORKSERVER=1", "MOZ_CRASHREPORTER_DISABLE=1",
	} {
		env = append(env, "--env", variable)
	}
	// A signal ends it at once; the page closes its last window instead.
	return browser("Firefox", "firefox-esr", "echo -1 >/tmp/write", env, "firefox-esr --headless --no-remote --profile /tmp/profile")
}

// Chromium is Chromium without a window and, like Firefox, without its sandbox. It keeps new
// cookies in memory for half a minute, and a signal that ends it loses them, with Diapause and
// without: it writes them when the page closes its last window.
func Chromium() Program {
	return browser("Chromium", "chromium", "echo -1 >/tmp/write", nil,
		"chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir=/tmp/profile")
}

// browser makes the program of a browser that is started by a command line to
// which the page's address is added, and ended by the line end.
func browser(name, command, end string, env []string, line string) Program {
	b := &page{end: end}
	flags := append([]string{"--network", "none", "--env", "HOME=/tmp", "--env", "DBUS_SESSION_BUS_ADDRESS=disabled:"}, env...)
	return Program{
		Name: name, State: "a page that counts and isn't loaded again; cookies, localStorage and IndexedDB that it writes after each resume, all of them read back by a browser that is started on the profile in the end",
		Needs: []string{command, python}, Version: []string{"sh", "-c", command + " --version 2>/dev/null"},
		Flags: flags, Command: []string{"/bin/sh", "-c", fmt.Sprintf(browserScript, line), "sh", pagePython, pageHTML},
		Prepare: b.prepare, Check: b.check,
	}
}

const browserScript = `exec >/tmp/start.out 2>&1
mkdir -p /tmp/profile
python3 -c "$1" "$2" &
cat >/tmp/profile/user.js <<'EOF'
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("dom.allow_scripts_to_close_windows", true);
EOF
until python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8000/")'; do sleep 0.1; done
while :; do
	%s http://127.0.0.1:8000/ &
	echo $! >/tmp/pid
	wait $!
	rm -f /tmp/told /tmp/write
done`

// page is what was last told by the page in a browser.
type page struct {
	last stored
	end  string // a line of sh that ends the browser
}

type stored struct {
	Boot    string `json:"boot"` // another one whenever the page is loaded
	Ticks   int64  `json:"ticks"`
	Cookies []int  `json:"cookies"`
	Local   []int  `json:"local"`
	Rows    []int  `json:"rows"` // of IndexedDB
	Error   string `json:"error"`
}

// has tells whether the numbers from 1 on are in all three places.
func (t stored) has(last int) bool {
	var want []int
	for n := range last {
		want = append(want, n+1)
	}
	return slices.Equal(t.Cookies, want) && slices.Equal(t.Local, want) && slices.Equal(t.Rows, want)
}

// until waits until the page tells what is wanted.
func (p *page) until(ctx context.Context, s *local.Session, what string, wanted func(stored) bool) error {
	var now stored
	for deadline := time.Now().Add(patience); ; {
		out, err := s.Until(ctx, patience, "cat /tmp/told")
		if err != nil {
			return p.explain(ctx, s, err)
		}
		if err := json.Unmarshal([]byte(out), &now); err != nil {
			return fmt.Errorf("read what the page tells: %w", err)
		}
		if wanted(now) {
			p.last = now
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return p.explain(ctx, s, fmt.Errorf("%s: the page tells %s", what, out))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *page) prepare(ctx context.Context, s *local.Session) error {
	return p.until(ctx, s, "the page isn't loaded", func(t stored) bool { return t.Ticks > 10 })
}

func (p *page) check(ctx context.Context, s *local.Session, r Round) error {
	was := p.last
	if _, err := s.Shell(ctx, fmt.Sprintf("echo %d >/tmp/write", r.N)); err != nil {
		return err
	}
	err := p.until(ctx, s, "the page doesn't store or count", func(t stored) bool {
		return t.has(r.N) && t.Ticks > was.Ticks+10 && t.Boot == was.Boot
	})
	if err == nil && p.last.Error != "" {
		err = fmt.Errorf("the page had an error: %s", p.last.Error)
	}
	if err != nil || !r.Last {
		return err
	}
	return p.again(ctx, s, r.N)
}

// again ends the browser, which the session's script then starts once more, and
// looks at what the new one finds in the profile.
func (p *page) again(ctx context.Context, s *local.Session, last int) error {
	was := p.last.Boot
	if _, err := s.Shell(ctx, p.end); err != nil {
		return err
	}
	return p.until(ctx, s, "a new browser doesn't find what was stored", func(t stored) bool { return t.Boot != was && t.has(last) })
}

func (p *page) explain(ctx context.Context, s *local.Session, err error) error {
	said, _ := s.Shell(context.WithoutCancel(ctx), "tail -n 5 /tmp/start.out")
	return fmt.Errorf("%w: %s", err, said)
}

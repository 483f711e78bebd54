package criu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// session is one that a test has started.
type session struct {
	t     *testing.T
	d     *Driver
	uid   schemas.UID
	spec  schemas.Spec
	epoch uint64
}

func shimExec(argv ...string) attach.Request {
	return attach.Request{Op: attach.OpExec, Argv: argv}
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	t.Cleanup(cancel)
	return ctx
}

// begin starts a session, which is stopped at the end of the test.
func begin(t *testing.T, d *Driver, name string, spec schemas.Spec) *session {
	t.Helper()
	s := &session{t: t, d: d, uid: schemas.UID(name), spec: spec}
	if _, err := d.Start(limited(t), s.next(), spec, drivertest.Begin); err != nil {
		t.Fatalf("start session %s: %v", name, err)
	}
	s.stopLater()
	return s
}

func (s *session) stopLater() {
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
		defer cancel()
		if err := s.d.Stop(ctx, s.next()); err != nil {
			s.t.Errorf("stop session %s: %v", s.uid, err)
		}
	})
}

func (s *session) next() driver.Fence {
	s.epoch++
	return drivertest.Fence(string(s.uid), s.epoch)
}

// suspend captures and stops the session.
func (s *session) suspend() *drivertest.Image {
	s.t.Helper()
	img, _ := s.capture()
	if err := s.d.Stop(limited(s.t), s.next()); err != nil {
		s.t.Fatalf("stop session %s: %v", s.uid, err)
	}
	return img
}

func (s *session) capture() (*drivertest.Image, driver.Captured) {
	s.t.Helper()
	img := &drivertest.Image{}
	c, err := s.d.Capture(limited(s.t), s.next(), img)
	if err != nil {
		s.t.Fatalf("capture session %s: %v", s.uid, err)
	}
	return img, c
}

func (s *session) resume(img *drivertest.Image, boot schemas.Boot) {
	s.t.Helper()
	if _, err := s.d.Restore(limited(s.t), s.next(), s.spec, img, boot, drivertest.Begin); err != nil {
		s.t.Fatalf("restore session %s: %v", s.uid, err)
	}
}

// cycle suspends and resumes the session.
func (s *session) cycle() *drivertest.Image {
	s.t.Helper()
	img := s.suspend()
	s.resume(img, schemas.BootResume)
	return img
}

func (s *session) run(argv ...string) string {
	s.t.Helper()
	return run(s.t, s.d, s.uid, argv...)
}

// sh runs a shell command in the session and returns what it wrote, trimmed.
func (s *session) sh(script string) string {
	s.t.Helper()
	return strings.TrimSpace(s.run("/bin/sh", "-c", script))
}

// want waits until the session has written text.
func (s *session) want(text string) {
	s.t.Helper()
	waitFor(s.t, s.d, s.uid, "writing "+text, func(out string) bool { return strings.Contains(out, text) })
}

// answering is a perl program that, after its set-up, answers each line of the
// file /tmp/ask with a line of its output: what the code gives for it.
func answering(setup, answer string) schemas.Spec {
	return schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `
		use strict; use warnings; use IO::Handle; $| = 1;
		` + setup + `
		system("mkfifo", "/tmp/ask");
		print "ready\n";
		my $n = 0;
		while (1) {
			open(my $ask, "<", "/tmp/ask") or die "ask: $!";
			while (my $line = <$ask>) { chomp $line; $n++; print "answer $n: ", do { ` + answer + ` }, "\n"; }
		}`}}
}

// ask asks an answering session and returns its answer to the n-th question.
func (s *session) ask(n, line string) string {
	s.t.Helper()
	s.run("/bin/sh", "-c", `echo "$0" > /tmp/ask`, line)
	sign := "answer " + n + ": "
	out := waitFor(s.t, s.d, s.uid, sign, func(out string) bool {
		_, rest, ok := strings.Cut(out, sign)
		return ok && strings.Contains(rest, "\n")
	})
	_, rest, _ := strings.Cut(out, sign)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

func TestWhatProgramsHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, setup, answer, want string
	}{
		{"unlinked file",
			`open(my $f, "+>", "/tmp/gone") or die; $f->autoflush(1); print $f "kept"; unlink "/tmp/gone";`,
			`seek($f, 0, 0); my $b = <$f>; print $f "+"; $b`, "kept"},
		{"unlinked file with another name",
			`open(my $f, "+>", "/tmp/one") or die; $f->autoflush(1); print $f "kept"; link "/tmp/one", "/tmp/two"; unlink "/tmp/one";`,
			`seek($f, 0, 0); my $b = <$f>; open(my $two, "<", "/tmp/two"); $b . "=" . <$two>`, "kept=kept"},
		{"pipe between processes",
			`pipe(my $r, my $w); pipe(my $r2, my $w2); $w->autoflush(1);
			 if (!fork) { $w2->autoflush(1); while (<$r>) { print $w2 "child got $_" } exit } `,
			`print $w "$line\n"; my $b = <$r2>; chomp $b; $b`, "child got question"},
		{"bytes in a pipe",
			`pipe(my $r, my $w); $w->autoflush(1); print $w "queued\nqueued\n";`,
			`my $b = <$r>; chomp $b; $b`, "queued"},
		{"unix socket",
			`use IO::Socket::UNIX; my $l = IO::Socket::UNIX->new(Local => "/tmp/sock", Listen => 1) or die;
			 if (!fork) { my $c = $l->accept; $c->autoflush(1); while (<$c>) { print $c "server got $_" } exit }
			 my $s = IO::Socket::UNIX->new("/tmp/sock") or die; $s->autoflush(1);`,
			`print $s "$line\n"; my $b = <$s>; chomp $b; $b`, "server got question"},
		{"TCP inside",
			`use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or die;
			 if (!fork) { my $c = $l->accept; $c->autoflush(1); while (<$c>) { print $c "server got $_" } exit }
			 my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) or die; $s->autoflush(1);`,
			`print $s "$line\n"; my $b = <$s>; chomp $b; $b`, "server got question"},
		{"shared memory file",
			`open(my $f, "+>", "/dev/shm/x") or die; $f->autoflush(1); print $f "shm";`,
			`seek($f, 0, 0); my $b = <$f>; open(my $g, "<", "/dev/shm/x"); $b . "=" . <$g>`, "shm=shm"},
		{"SysV shared memory",
			`my $id = shmget(4711, 64, 01600) // die; shmwrite($id, "sysv", 0, 4) or die;`,
			`my $b; shmread(shmget(4711, 64, 0), $b, 0, 4); $b`, "sysv"},
		{"record lock",
			`use Fcntl; open(my $f, "+>", "/tmp/locked") or die; flock($f, 2) or die;`,
			`open(my $g, "+<", "/tmp/locked"); flock($g, 6) ? "free" : "locked"`, "locked"},
		{"own directory",
			`mkdir "/tmp/here"; chdir "/tmp/here"; umask 027;`,
			`use Cwd; getcwd() . sprintf(" %o", umask)`, "/tmp/here 27"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := answering(c.setup, c.answer)
			spec.Network = "none" // fixed ports and keys, of sessions beside each other
			s := begin(t, open(t, t.TempDir()), "s", spec)
			s.want("ready")
			s.cycle()
			if got := s.ask("1", "question"); got != c.want {
				t.Errorf("after a resume it has %q, want %q", got, c.want)
			}
			s.cycle()
			s.ask("2", "question")
		})
	}
}

func TestFilesOfItsOwn(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", counting)
	s.sh(`mkdir -p /srv/own/deep && echo new > /srv/own/deep/file && chmod 4751 /srv/own/deep/file &&
		ln /srv/own/deep/file /srv/own/hard && ln -s deep/file /srv/own/soft && mkfifo /srv/own/pipe &&
		touch -d 2001-02-03T04:05:06Z /srv/own/deep /srv/own/deep/file &&
		rm /etc/issue && rm -r /usr/share/doc && mkdir /usr/share/doc && echo x > /usr/share/doc/only &&
		chown 12:34 /etc/hostname && dd if=/dev/zero of=/srv/own/big bs=1M count=3 2>/dev/null`)
	look := `cd /srv/own; find . | sort; stat -c '%n %a %u:%g %Y %h %s' deep/file hard soft deep big; cat soft
		ls /usr/share/doc; ls /etc/issue 2>&1; stat -c '%u:%g' /etc/hostname; stat -c '%a %u:%g' / /etc /tmp`
	before := s.sh(look)
	for _, want := range []string{"./deep/file", "4751", "981173106", "only", "No such file", "12:34"} {
		if !strings.Contains(before, want) {
			t.Fatalf("the session's files lack %q:\n%s", want, before)
		}
	}
	for range 2 {
		s.cycle()
		if after := s.sh(look); after != before {
			t.Errorf("the session's files were\n%s\nand are\n%s", before, after)
		}
	}
	if _, err := os.Stat("/srv/own"); !os.IsNotExist(err) {
		t.Error("the session wrote to the host")
	}
	if _, err := os.Stat("/usr/share/doc"); err != nil {
		t.Errorf("the session removed files of the host: %v", err)
	}
}

func TestSessionsBesideEachOther(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	a := begin(t, d, "a", counting)
	a.sh("echo common > /tmp/file")
	img, _ := a.capture()
	if err := d.Thaw(limited(t), a.next()); err != nil {
		t.Fatal(err)
	}
	b := &session{t: t, d: d, uid: "b", spec: counting}
	b.stopLater()
	b.resume(img, schemas.BootFork)
	a.sh("echo a >> /tmp/file")
	b.sh("echo b >> /tmp/file")
	ia, ib := a.suspend(), b.suspend()
	a.resume(ia, schemas.BootResume)
	b.resume(ib, schemas.BootResume)
	if got := a.sh("cat /tmp/file"); got != "common\na" {
		t.Errorf("the origin's file is %q", got)
	}
	if got := b.sh("cat /tmp/file"); got != "common\nb" {
		t.Errorf("the fork's file is %q", got)
	}
	count(t, d, "a")
	count(t, d, "b")
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	a := begin(t, d, "a", counting)
	check := func(s *session, want ...string) {
		t.Helper()
		got := s.sh("cat /run/diapause/generation")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("the generation file is %s, want %s in it", got, w)
			}
		}
	}
	check(a, `"generation":1`, `"boot":"clean"`, `"name":"a"`, `"uid":"a"`)
	img := a.cycle()
	check(a, `"generation":2`, `"boot":"resume"`)
	// A session that put something else in its place.
	a.sh("rm /run/diapause/generation && ln -s /etc/passwd /run/diapause/generation")
	a.cycle()
	check(a, `"generation":3`)
	if strings.Contains(a.sh("head -c 10 /etc/passwd"), "generation") {
		t.Error("the generation was written through the session's symlink")
	}
	b := &session{t: t, d: d, uid: "b", spec: counting}
	b.stopLater()
	b.resume(img, schemas.BootFork)
	check(b, `"generation":2`, `"boot":"fork"`, `"name":"b"`, `"uid":"b"`)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	spec := counting
	spec.Command = []string{"/bin/sh", "-c", "while :; do sleep 1; done"}
	spec.Hooks = schemas.Hooks{
		OnSuspend: "echo suspend >> /tmp/hooks", OnResume: "echo resume >> /tmp/hooks; echo broken >&2; exit 3",
		OnFork: "echo fork >> /tmp/hooks", Timeout: 10 * time.Second,
	}
	s := begin(t, d, "s", spec)
	s.cycle()
	s.want(`failed with 3: broken`)
	if got := s.sh("cat /tmp/hooks"); got != "suspend\nresume" {
		t.Errorf("the hooks wrote %q", got)
	}
	s.spec.Hooks = schemas.Hooks{OnSuspend: "sleep 1000", Timeout: time.Second}
	img := s.suspend()
	s.resume(img, schemas.BootResume)
	_, c := s.capture()
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Text, "longer than 1s") {
		t.Errorf("a hook that doesn't end gives the warnings %v", c.Warnings)
	}
}

func TestCommandsThatCantRun(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	// In a root of its own, since the host's /tmp may be a file system of its own,
	// which sessions don't see.
	root := miniRoot(t)
	for name, content := range map[string]string{"plain": "not a program", "script": "#!/no/interpreter\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		spec schemas.Spec
		want string
	}{
		{schemas.Spec{Command: []string{"no-such-command"}}, `command "no-such-command" not found in /usr/local/sbin`},
		{schemas.Spec{Command: []string{"/no/such"}}, `command "/no/such" not found`},
		{schemas.Spec{Command: []string{"/etc"}}, `/etc is a directory`},
		{schemas.Spec{Command: []string{"/etc/passwd"}}, `has no execute permission`},
		{schemas.Spec{Command: []string{"/plain"}, Root: root}, `is not a program for this machine`},
		{schemas.Spec{Command: []string{"/script"}, Root: root}, `the interpreter`},
		{schemas.Spec{Command: []string{"sh"}, Dir: "/no/dir"}, `the working directory /no/dir doesn't exist`},
		{schemas.Spec{Command: []string{"sh"}, User: "no-such-user"}, `there is no user "no-such-user"`},
		{schemas.Spec{Command: []string{"sh"}, Root: "/no/root"}, `the root /no/root is not a directory`},
		{schemas.Spec{Command: []string{"sh"}, Network: "bridge"}, `the network "bridge"`},
		{schemas.Spec{}, `there is no command`},
	} {
		_, err := d.Start(limited(t), drivertest.Fence("s", 1), c.spec, func(context.Context) error {
			t.Errorf("begin was called for %v", c.spec)
			return nil
		})
		if err == nil || driver.KindOf(err) != driver.Refused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gives %v, want %q", c.spec, err, c.want)
		}
	}
	if left, err := d.shims.known(); err != nil || len(left) != 0 {
		t.Errorf("they left %v, %v", left, err)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: counting.Command, Env: []string{"GREETING=hello"}, Dir: "/usr"})
	if got := s.sh(`echo $GREETING $PWD $DIAPAUSE_SESSION; exec 2>&1; ps -o pid=,args= -p 1`); !strings.HasPrefix(got, "hello /usr s\n") || !strings.Contains(got, "init") {
		t.Errorf("a command finds %q", got)
	}
	out, exit := request(t, d, "s", attach.Request{Op: attach.OpExec, Argv: []string{"sh", "-c", "cat; echo err >&2; exit 5"}}, strings.Repeat("input\n", 100000))
	if exit.Code != 5 || strings.Replace(out, "err\n", "", 1) != strings.Repeat("input\n", 100000) {
		t.Errorf("a command with input gives %d bytes and exit %+v", len(out), exit)
	}
	_, exit = request(t, d, "s", attach.Request{Op: attach.OpExec, Argv: []string{"sh", "-c", "kill -9 $$"}}, "")
	if exit.Code != 137 || exit.Signal != 9 {
		t.Errorf("a command that was killed gives %+v", exit)
	}
	out, _ = request(t, d, "s", attach.Request{Op: attach.OpExec, Argv: []string{"sh", "-c", "tty; stty size"}, TTY: true, Rows: 33, Cols: 99}, "")
	if out != "/dev/pts/0\r\n33 99\r\n" {
		t.Errorf("a command with a terminal gives %q", out)
	}
	// More than is kept, to a reader that takes it.
	out, _ = request(t, d, "s", attach.Request{Op: attach.OpExec, Argv: []string{"sh", "-c", "head -c 5000000 /dev/zero"}}, "")
	if len(out) != 5000000 {
		t.Errorf("5000000 bytes of output became %d", len(out))
	}
}

package criu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// tracing traces init, or what enters the session, and so stops it; a command that runs already it
// lets go on.
const tracing = `my $what = shift; my %known = map { $_ => 1 } glob("/proc/[0-9]*");
	$| = 1;
	if ($what eq "init") { print syscall(101, 16, 1, 0, 0) == 0 ? "traced\n" : "refused $!\n"; sleep 1 while 1 }
	print "ready\n";
	while (1) { for my $p (glob("/proc/[0-9]*")) {
		next if $known{$p}++ or $p !~ /(\d+)/ or syscall(101, 16, $1 + 0, 0, 0) != 0;
		waitpid($1, 0x40000000);
		if ((readlink("$p/exe") // "") =~ /echo/) { syscall(101, 17, $1 + 0, 0, 0) } else { print "caught $1\n" }
	} }`

// A program that traces what enters the session stops each command on its way in: that is said
// in bounded time.
func TestExecUnderATracer(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", tracing, "all"}, Seccomp: schemas.Unconfined})
	s.want("ready")
	for range 100 { // some get through before they are seen
		out, err := s.hello()
		if err == nil && out == "hello\n" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "didn't start in session") {
			t.Fatalf("a command that is stopped on its way in says %q, %v", out, err)
		}
		s.want("caught")
		return
	}
	t.Error("no command was stopped")
}

// A program that traces init, which a session without a filter lets it, keeps that from reporting how commands
// end: that is said in bounded time, and by whom.
func TestExecUnderATracedInit(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", tracing, "init"}, Seccomp: schemas.Unconfined})
	s.want("traced")
	out, err := s.hello()
	if out != "hello\n" || err == nil || !strings.Contains(err.Error(), "(perl) of the session traces its init") {
		t.Errorf("a command whose end isn't reported says %q, %v", out, err)
	}
}

// By default init, which reports what ends, can't be traced.
func TestInitIsNotTraced(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", tracing, "init"}})
	s.want("refused Operation not permitted")
	if out, err := s.hello(); out != "hello\n" || err != nil {
		t.Errorf("beside it a command says %q, %v", out, err)
	}
}

// hello has a command say hello, and gives up when it takes longer than anything may.
func (s *session) hello() (string, error) {
	s.t.Helper()
	ctx := limited(s.t)
	conn, err := s.d.Dial(ctx, s.uid)
	if err != nil {
		s.t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var out bytes.Buffer
	exit, err := attach.Do(conn, shimExec("/bin/echo", "hello"), attach.Streams{Stdout: &out, Stderr: &out})
	if err == nil && exit.Code != 0 {
		err = errors.New(exit.Reason)
	}
	return out.String(), err
}

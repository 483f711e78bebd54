package criu

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/network/networktest"
)

// private is an answering session with a network of its own.
func private(setup, answer string) schemas.Spec {
	spec := answering(`use IO::Socket::INET; $SIG{PIPE} = "IGNORE";
		sub to { my ($host, $port) = @_; IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Timeout => $_[2] // 20) }
		sub say_to { my $s = shift; return "no socket" unless $s; syswrite($s, "$_[0]\n") // return "can't write: $!"; my $n = sysread($s, my $b, 100) // return "can't read: $!"; chomp $b; $n ? $b : "closed" }
		`+setup, answer)
	spec.Network = "private"
	return spec
}

// TestPrivateNetwork resumes a session with connections of both kinds: those inside go on, those
// with the outside end with an error, and new ones are made.
func TestPrivateNetwork(t *testing.T) {
	t.Parallel()
	outside := networktest.New(t)
	port := outside.Echo(t)
	s := begin(t, open(t, t.TempDir()), "s", private(fmt.Sprintf(`
		my $l = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 8080, Listen => 5) or die "listen: $!";
		my $bound = IO::Socket::INET->new(LocalAddr => "%[1]s", LocalPort => 8081, Listen => 5) or die "listen: $!";
		if (!fork) { while (my $c = $l->accept) { next if fork; $c->autoflush(1); while (<$c>) { print $c "server got $_" } exit } }
		my $in = to("127.0.0.1", 8080) or die "inside: $!";
		my $own = to("%[1]s", 8080) or die "inside: $!";
		my $out = to("%[2]s", %[3]d) or die "outside: $!";
		print say_to($out, "hello outside"), "\n";`, network.Inner.Addr(), outside.Addr, port),
		fmt.Sprintf(`join "|", say_to($in, $line), say_to($own, $line), say_to($out, $line), say_to(to("%s", %d), "new")`, outside.Addr, port)))
	s.want("hello outside\nready")
	if got, want := s.ask("1", "a"), "server got a|server got a|a|new"; got != want {
		t.Fatalf("before a suspend it answers %q, want %q", got, want)
	}
	img, captured := s.capture()
	want := fmt.Sprintf("to %s:%d", outside.Addr, port)
	var closed []string
	for _, w := range captured.Warnings {
		if w.Code == schemas.WarnConnection {
			closed = append(closed, w.Text)
			if !strings.Contains(w.Text, want) {
				t.Errorf("the suspend warns of a connection: %q, want none but %q", w.Text, want)
			}
		}
	}
	if len(closed) == 0 {
		t.Errorf("the suspend doesn't warn of the connection %s", want)
	}
	for _, e := range img.Entries() {
		if strings.HasPrefix(path.Base(e.Name), "netns-ct-") {
			t.Errorf("the image has %s: what this host knows of connections isn't the session's", e.Name)
		}
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	if got, want := s.ask("2", "b"), "server got b|server got b|can't write: Software caused connection abort|new"; got != want {
		t.Errorf("after a resume it answers %q, want %q", got, want)
	}
	s.cycle()
	if got := s.ask("3", "c"); !strings.HasPrefix(got, "server got c|server got c|can't write: ") || !strings.HasSuffix(got, "|new") {
		t.Errorf("after a second resume it answers %q", got)
	}
}

// TestPrivateNetworkReaches says what a session reaches, from its first instruction on and after a resume.
func TestPrivateNetworkReaches(t *testing.T) {
	t.Parallel()
	outside := networktest.New(t)
	port, host := outside.Echo(t), networktest.Echo(t, outside.Host)
	look := fmt.Sprintf(`join("|", (map { my $s = to(@$_, 1); say_to($s, "x") } ["%s", %d], ["%s", %d], ["127.0.0.1", %[4]d]),
		to("%[5]s", 53) ? "names" : "no names: $!")`, outside.Addr, port, outside.Host, host, network.Service)
	s := begin(t, open(t, t.TempDir()), "s", private(`print "first: ", `+look+`, "\n";`, look))
	const want = "x|no socket|no socket|names"
	s.want("first: " + want + "\n")
	for i, boot := range []schemas.Boot{schemas.BootResume, schemas.BootRollback} {
		s.resume(s.suspend(), boot)
		if got := s.ask(fmt.Sprint(i+1), "?"); got != want {
			t.Errorf("after a %s it reaches %q, want %q", boot, got, want)
		}
	}
	if got, want := s.sh("cat /etc/resolv.conf"), "nameserver "+network.Service.String(); !strings.HasPrefix(got, want) {
		t.Errorf("/etc/resolv.conf is %q, want one that begins with %q", got, want)
	}
}

// TestAllowOut has one session reach an address, and another not, also after a resume.
func TestAllowOut(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	outside := networktest.New(t)
	port := outside.Echo(t)
	d := open(t, t.TempDir())
	for name, c := range map[string]struct{ list, want string }{
		"listed": {outside.Addr.String(), "x"},
		"other":  {"192.0.2.0/24", "no socket"},
		"none":   {"none", "no socket"},
	} {
		spec := private("", fmt.Sprintf(`say_to(to("%s", %d, 1), "x")`, outside.Addr, port))
		spec.AllowOut = []string{c.list}
		s := begin(t, d, name, spec)
		s.want("ready")
		for _, n := range []string{"1", "2"} {
			if got := s.ask(n, "?"); got != c.want {
				t.Errorf("with --allow-out %s it answers %q, want %q", c.list, got, c.want)
			}
			s.cycle()
		}
	}
}

// TestForksOfAServer has two of one image listen on one port.
func TestForksOfAServer(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	a := begin(t, d, "a", private(`my $l = IO::Socket::INET->new(LocalPort => 8080, Listen => 5) or die "listen: $!";
		if (!fork) { while (my $c = $l->accept) { my $b = <$c>; open(my $f, "<", "/tmp/name"); my $name = <$f>; print $c $name; close $c } exit }`,
		`say_to(to("127.0.0.1", 8080), $line)`))
	a.want("ready")
	img, _ := a.capture()
	if err := d.Thaw(limited(t), a.next()); err != nil {
		t.Fatal(err)
	}
	b := &session{t: t, d: d, uid: "b", spec: a.spec}
	b.stopLater()
	b.resume(img, schemas.BootFork)
	a.sh("echo the origin > /tmp/name")
	b.sh("echo the fork > /tmp/name")
	if got := a.ask("1", "?"); got != "the origin" {
		t.Errorf("the origin's server says %q", got)
	}
	if got := b.ask("1", "?"); got != "the fork" {
		t.Errorf("the fork's server says %q", got)
	}
}

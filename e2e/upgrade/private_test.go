package upgrade

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network/networktest"
)

// withPrivate is a commit whose process trees have private networks, with published ports.
const withPrivate = "d1cf37d2dc25aac51fba144c4bf3f13e97352666"

// counting is a server in a session: each connection gets the next number.
const counting = `use IO::Socket::INET; $| = 1; my $n = 0;
	my $l = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die "listen: $!";
	while (1) { my $c = $l->accept or next; print $c ++$n, "\n"; close $c }`

// TestPrivateNetworksAreTakenOver has the newer program go on with sessions of an older one that have
// networks of their own: one that runs, whose shim is the older program's, and one that sleeps. What
// they reach, and what reaches them, stays through suspends, resumes and the end of the newer daemon.
func TestPrivateNetworksAreTakenOver(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		t.Log("private networks of an older program are taken over with DIAPAUSE_LONG=1")
		return
	}
	program, err := build(withPrivate)
	if err != nil {
		t.Fatal(err)
	}
	outside := networktest.New(t)
	echo := outside.Echo(t)
	for name, kill := range map[string]bool{"down": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			i := installOf(t, program, nil)
			runs, sleeps := i.serve("runs", outside, echo), i.serve("sleeps", outside, echo)
			runs.works()
			sleeps.works()
			i.must("suspend", "sleeps")
			i.upgrade(kill)
			runs.works()
			if err := i.Kill(); err != nil {
				t.Fatal(err)
			}
			runs.answers() // without any daemon
			i.up()
			runs.works()
			i.must("ensure", "sleeps")
			sleeps.works()
			for _, p := range []*privately{runs, sleeps} {
				i.must("suspend", p.name)
				p.closed()
				i.must("ensure", p.name)
				p.works()
			}
			i.must("fork", "--publish", "none", "runs", "twin")
			i.is("twin", schemas.Running)
			(&privately{i: i, name: "twin", outside: outside, echo: echo}).reaches()
			runs.works()
			if err := i.Kill(); err != nil {
				t.Fatal(err)
			}
			runs.answers()
			i.up()
			runs.works()
			sleeps.works()
			i.must("audit", "--verify")
		})
	}
}

// privately is a session with a network of its own, in which counting serves.
type privately struct {
	i       *installation
	name    string
	address string // of the published port
	n       int    // the last number that it gave
	outside *networktest.Outside
	echo    uint16 // a port of the outside
}

// serve starts a session with a published port.
func (i *installation) serve(name string, outside *networktest.Outside, echo uint16) *privately {
	i.t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		i.t.Fatal(err)
	}
	p := &privately{i: i, name: name, address: free.Addr().String(), outside: outside, echo: echo}
	free.Close()
	i.must("run", "--name", name, "--idle", "never", "--network", "private", "--publish", p.address+":8080", "--", "perl", "-e", counting)
	i.until("session "+name+" serves", func() bool { return p.answer() != "" })
	return p
}

// answer is what the published port gives, nothing if it is closed.
func (p *privately) answer() string {
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		return ""
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		return ""
	}
	p.n, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	return string(b)
}

// answers wants the next number from the published port.
func (p *privately) answers() {
	p.i.t.Helper()
	want := fmt.Sprintf("%d\n", p.n+1)
	if got := p.answer(); got != want {
		p.i.t.Fatalf("the port of session %s gives %q, want %q", p.name, got, want)
	}
}

// closed wants nothing to listen at the published port.
func (p *privately) closed() {
	p.i.t.Helper()
	if c, err := net.Dial("tcp", p.address); err == nil {
		c.Close()
		p.i.t.Fatalf("the port of session %s, which is suspended, takes connections", p.name)
	}
}

// reaches wants the session to reach the outside, its name server and not the host.
func (p *privately) reaches() {
	p.i.t.Helper()
	const look = `use IO::Socket::INET; sub to { IO::Socket::INET->new(PeerAddr => $_[0], PeerPort => $_[1], Timeout => $_[2]) }
		my $s = to($ARGV[0], $ARGV[1], 20); print $s "there\n" if $s; print $s ? scalar(<$s>) : "no outside: $!\n";
		my ($names) = do { local @ARGV = "/etc/resolv.conf"; map { /^nameserver (\S+)/ } <> }; print to($names, 53, 20) ? "names\n" : "no names: $!\n";
		print to($ARGV[2], $ARGV[3], 1) ? "the host\n" : "no host\n"`
	host := networktest.Echo(p.i.t, p.outside.Host)
	got := p.i.must("exec", p.name, "--", "perl", "-e", look, p.outside.Addr.String(), fmt.Sprint(p.echo), p.outside.Host.String(), fmt.Sprint(host))
	if want := "there\nnames\nno host\n"; got != want {
		p.i.t.Fatalf("session %s reaches %q, want %q", p.name, got, want)
	}
}

func (p *privately) works() {
	p.i.t.Helper()
	p.i.is(p.name, schemas.Running)
	p.answers()
	p.reaches()
}

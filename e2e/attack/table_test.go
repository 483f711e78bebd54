package attack

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write ATTACKS.md")

const tableFile = "ATTACKS.md"

// section is a part of the table: a place, and in which networks it is.
type section struct {
	title, place string
	networks     []string
}

var sections = []section{
	{"From inside a session", "session", []string{private, host}},
	{"From inside a session with limits", "limited", nil},
	{"As a user of the machine, without credentials", "stranger", nil},
	{"From another machine", "network", nil},
}

// madeHere are attempts that the tests themselves make.
type madeHere struct {
	title string
	rows  [][2]string
}

func testMade() []madeHere {
	verbs := madeHere{title: "By what a session prepares for the host's verbs"}
	for _, c := range slices.Concat(traps(), adoptions(), resumes()) {
		verbs.rows = append(verbs.rows, [2]string{c.what, c.want})
	}
	tenants := madeHere{title: "With the credentials of another tenant's publisher"}
	for _, c := range tenancies() {
		tenants.rows = append(tenants.rows, [2]string{c.what, c.want})
	}
	for _, v := range tenantVerbs {
		tenants.rows = append(tenants.rows, [2]string{"the verb " + v, "denied"})
	}
	shares := madeHere{title: "With the token of a shared terminal"}
	for _, c := range append(peeks(), endedShares()...) {
		shares.rows = append(shares.rows, [2]string{c.what, c.want})
	}
	doors := madeHere{title: "By another door", rows: [][2]string{
		{"a port besides the two of NATS and that of HTTP, which are on loopback, and the advertised one", "none listens"},
		{"a unix socket outside of the data directory, or an abstract one", "none listens"},
	}}
	leases := madeHere{title: "To have a session suspended that others hold"}
	for _, e := range endings() {
		leases.rows = append(leases.rows, [2]string{e.what, e.want})
	}
	return []madeHere{verbs, tenants, shares, leases, doors}
}

// The document lists what the tests try.
func TestTable(t *testing.T) {
	var b strings.Builder
	count := 0
	for _, s := range sections {
		heads := []string{"attempt", "refused with"}
		if len(s.networks) > 0 {
			heads = []string{"attempt", "private network", "the host's network"}
		}
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", s.title, strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
		seen := map[string]bool{}
		for _, a := range Places[s.place]() {
			if count++; seen[a.What] {
				t.Errorf("%s: there are two of %q", s.title, a.What)
			}
			seen[a.What] = true
			fmt.Fprintf(&b, "| %s |", a.What)
			for _, network := range s.networks {
				fmt.Fprintf(&b, " %s |", a.refusal(network))
			}
			if len(s.networks) == 0 {
				fmt.Fprintf(&b, " %s |", strings.Join(a.Want, " or "))
			}
			b.WriteString("\n")
		}
	}
	for _, s := range testMade() {
		fmt.Fprintf(&b, "\n## %s\n\n| attempt | refused with |\n| --- | --- |\n", s.title)
		for _, r := range s.rows {
			fmt.Fprintf(&b, "| %s | %s |\n", r[0], r[1])
		}
		count += len(s.rows)
	}
	text := fmt.Sprintf(tableHead, count) + b.String()
	if *update {
		if err := os.WriteFile(tableFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(tableFile); err != nil || string(written) != text {
		t.Errorf("%s isn't what the tests try (%v): write it with go test ./e2e/attack -run TestTable -update", tableFile, err)
	}
}

const tableHead = `# What was tried against Diapause

Written by ` + "`go test ./e2e/attack -run TestTable -update`" + `; don't edit. ` + "`make test`" + ` makes each of these
%d attempts on the real program, and wants the refusal that is named: an error of the kernel (EPERM),
of the protocol, or in words. Many are also made by root of the host, where they must succeed. The session
with a private network was suspended and resumed before. A dash is what isn't tried, since the network is shared,
or is the session's own.

What a session shares with the host is in [workers/README.md](../../workers/README.md#what-it-is-isolated-from-and-what-not).
`

func (a Attempt) refusal(network string) string {
	switch {
	case a.Only != "" && a.Only != network:
		return "-"
	case network == host && a.Host != nil:
		return strings.Join(a.Host, " or ")
	}
	return strings.Join(a.Want, " or ")
}

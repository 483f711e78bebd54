package run

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A certificate that is made is for the names by which clients reach the gateway.
func TestNamesOfACertificate(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		address, domain string
		hosts, more     []string
		names           []string // besides those of every one
		addresses       []string
	}{
		{"127.0.0.1:4280", "localhost", nil, nil, nil, nil},
		{"0.0.0.0:443", "", nil, nil, nil, nil},
		{":443", "", nil, nil, nil, nil},
		{"localhost:443", "", nil, nil, nil, nil},
		{"10.0.0.7:443", "apps.example.com", []string{"gate.example.com"}, []string{"*.acme.localhost", "fd00::7"},
			[]string{"gate.example.com", "*.acme.localhost", "apps.example.com", "*.apps.example.com"}, []string{"10.0.0.7", "fd00::7"}},
		{"gate.example.com:443", "", nil, nil, []string{"gate.example.com"}, nil},
	} {
		web := WebConfig{Domain: c.domain, TLS: TLSConfig{SelfDir: t.TempDir(), Names: c.more}}
		s, err := web.open(c.address, c.hosts, log)
		if err != nil {
			t.Fatal(err)
		}
		names, addresses := s.Leaf().DNSNames, []string{}
		for _, a := range s.Leaf().IPAddresses {
			addresses = append(addresses, a.String())
		}
		if want := slices.Concat([]string{"localhost", "*.localhost", "*.default.localhost"}, c.names); !same(names, want) {
			t.Errorf("at %s it is for %v, want %v", c.address, names, want)
		}
		if want := slices.Concat([]string{"127.0.0.1", "::1"}, c.addresses); !same(addresses, want) {
			t.Errorf("at %s it is for %v, want %v", c.address, addresses, want)
		}
		var said strings.Builder
		sayTrust(&said, s)
		if text := said.String(); !strings.Contains(text, s.Trust()) || !strings.Contains(text, "SHA-256 ") {
			t.Errorf("it says %q", text)
		}
	}
	if s, err := (WebConfig{}).open("127.0.0.1:0", nil, log); s != nil || err != nil || configOf(s) != nil {
		t.Errorf("without TLS there is %v, %v", s, err)
	}
	if _, err := (WebConfig{TLS: TLSConfig{CertFile: "none", KeyFile: "none"}}).open("127.0.0.1:0", nil, log); err == nil || schemas.CodeOf(misuse(err)) != schemas.CodeUsage {
		t.Errorf("files that there aren't: %v", err)
	}
}

// same compares lists whose order doesn't matter.
func same(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

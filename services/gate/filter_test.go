package gate

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	divert := func(subject string) string {
		if strings.HasPrefix(subject, "bad.") {
			return "nowhere"
		}
		return ""
	}
	const ping = "PING\r\n"
	for _, c := range []struct{ name, in, out string }{
		{"other lines", "CONNECT {}\r\nSUB x 1\r\n" + ping, "CONNECT {}\r\nSUB x 1\r\n" + ping},
		{"a message", "PUB good 5\r\nhello\r\n" + ping, "PUB good 5\r\nhello\r\n" + ping},
		{"one with headers", "HPUB good 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "HPUB good 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping},
		{"a line in the content", "PUB good 13\r\nPUB bad.x 0\r\n\r\n" + ping, "PUB good 13\r\nPUB bad.x 0\r\n\r\n" + ping},
		{"a diverted one", "PUB bad.x 5\r\nhello\r\n" + ping, "PUB nowhere 0\r\n\r\n" + ping},
		{"with a reply", "pub\tbad.x  me 5\r\nhello\r\n" + ping, "PUB nowhere me 0\r\n\r\n" + ping},
		{"with headers", "HPUB bad.x me 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "PUB nowhere me 0\r\n\r\n" + ping},
		{"without a carriage return", "PUB bad.x 0\n\r\n" + ping, "PUB nowhere 0\r\n\r\n" + ping},
		{"too large", "PUB good 101\r\n" + ping, "PUB good 101\r\n"},
		{"too large for a number", "PUB good 99999999999999999999\r\n" + ping, "PUB good 99999999999999999999\r\n"},
		{"without a size", "PUB good\r\nPUB bad.x 0\r\n\r\n", "PUB good\r\n"},
		{"too many words", "PUB a b c 0\r\nPUB bad.x 0\r\n\r\n", "PUB a b c 0\r\n"},
		{"an end within a message", "PUB bad.x 5\r\nhel", ""},
		{"an end within a line", "PIN", "PIN"},
		{"a long line", strings.Repeat("x", longestLine+1) + "\r\nPUB bad.x 0\r\n\r\n", strings.Repeat("x", longestLine)},
	} {
		var out bytes.Buffer
		f := filter{in: bufio.NewReaderSize(strings.NewReader(c.in), longestLine), server: &out, divert: divert, largest: 100}
		_ = f.carry() // how it ends is the client's doing
		if out.String() != c.out {
			t.Errorf("%s: the server got %.100q, want %.100q", c.name, out.String(), c.out)
		}
	}
}

// However a client writes, the server gets no message on a subject that is diverted.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"PUB bad.x 2\r\nhi\r\n", "PUB good 2\r\nhi\r\nHPUB bad.x 0 0\r\n\r\n", "PUB good 0\r\nPUB bad.x 0\r\n\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var out bytes.Buffer
		carry := filter{in: bufio.NewReaderSize(strings.NewReader(in), longestLine), server: &out, divert: func(s string) string {
			if s == "bad.x" {
				return "nowhere"
			}
			return ""
		}, largest: 100}
		_ = carry.carry()
		// What the server got goes through again unchanged: nothing in it is diverted.
		again := filter{in: bufio.NewReaderSize(bytes.NewReader(out.Bytes()), longestLine), server: &bytes.Buffer{}, divert: func(s string) string {
			if s == "bad.x" {
				t.Errorf("%q became %q", in, out.String())
			}
			return ""
		}, largest: 100}
		_ = again.carry()
	})
}

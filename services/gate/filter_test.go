package gate

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	change := func(m *Message) {
		switch {
		case strings.HasPrefix(m.Subject, "bad."):
			*m = Message{Subject: "nowhere"}
		case m.Subject == "marked":
			m.Subject, m.Header = m.Subject+"."+m.By, []byte("NATS/1.0\r\nA: b\r\n\r\n")
		}
	}
	const ping, hello = "PING\r\n", "CONNECT {\"headers\":true}\r\n"
	for _, c := range []struct{ name, in, out string }{
		{"other lines", "connect {}\r\nSUB x 1\r\n" + ping, hello + "SUB x 1\r\n" + ping},
		{"one that takes no headers", "CONNECT {\"headers\":false,\"Headers\":false}\r\n" + ping, hello + ping},
		{"one that can't be read", "CONNECT x\r\n" + ping, "CONNECT x\r\n" + ping},
		{"nothing to read", "CONNECT null\r\n" + ping, "CONNECT null\r\n" + ping},
		{"a message that is changed", "CONNECT {}\r\nPUB marked 5\r\nhello\r\n", hello + "HPUB marked.1000 18 23\r\nNATS/1.0\r\nA: b\r\n\r\nhello\r\n"},
		{"a message before all", "PUB good 0\r\n\r\nPUB good 0\r\n\r\n", connectFirst + "PUB good 0\r\n\r\nPUB good 0\r\n\r\n"},
		{"a header larger than all", "HPUB good 18 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "HPUB good 18 17\r\n"},
		{"a header without a size", "HPUB good x 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "HPUB good x 17\r\n"},
		{"a message without an end", "CONNECT {}\r\nPUB good 5\r\nhelloPUB bad.x 0\r\n\r\n", hello + "PUB\r\n"},
		{"a message", "PUB good 5\r\nhello\r\n" + ping, "PUB good 5\r\nhello\r\n" + ping},
		{"one with headers", "HPUB good 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "HPUB good 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping},
		{"a line in the content", "PUB good 13\r\nPUB bad.x 0\r\n\r\n" + ping, "PUB good 13\r\nPUB bad.x 0\r\n\r\n" + ping},
		{"a diverted one", "PUB bad.x 5\r\nhello\r\n" + ping, "PUB nowhere 0\r\n\r\n" + ping},
		{"with a reply", "pub\tbad.x  me 5\r\nhello\r\n" + ping, "PUB nowhere me 0\r\n\r\n" + ping},
		{"with headers", "HPUB bad.x me 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" + ping, "PUB nowhere me 0\r\n\r\n" + ping},
		{"without a carriage return", "PUB bad.x 0\n\r\n" + ping, "PUB nowhere 0\r\n\r\n" + ping},
		{"a line's end in a subject", "PUB good\rx 0\r\n\r\n" + ping, "PUB\r\n"},
		{"the same where answers go", "HPUB good x\ry 12 12\r\nNATS/1.0\r\n\r\n\r\n" + ping, "PUB\r\n"},
		{"a zero in a subject", "PUB good\x00x 0\r\n\r\n" + ping, "PUB\r\n"},
		{"too large", "PUB good 101\r\n" + ping, "PUB good 101\r\n"},
		{"too large for a number", "PUB good 99999999999999999999\r\n" + ping, "PUB good 99999999999999999999\r\n"},
		{"without a size", "PUB good\r\nPUB bad.x 0\r\n\r\n", "PUB good\r\n"},
		{"too many words", "PUB a b c 0\r\nPUB bad.x 0\r\n\r\n", "PUB a b c 0\r\n"},
		{"an end within a message", "PUB bad.x 5\r\nhel", ""},
		{"an end within a line", "PIN", "PIN"},
		{"a long line", strings.Repeat("x", longestLine+1) + "\r\nPUB bad.x 0\r\n\r\n", strings.Repeat("x", longestLine)},
	} {
		var out bytes.Buffer
		f := filter{in: bufio.NewReaderSize(strings.NewReader(c.in), longestLine), server: &out, by: "1000", change: change, largest: 100}
		f.connected = !strings.HasPrefix(c.name, "a message before")
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
		diverted := func(m *Message) {
			if m.Subject == "bad.x" {
				*m = Message{Subject: "nowhere"}
			}
		}
		carry := filter{in: bufio.NewReaderSize(strings.NewReader(in), longestLine), server: &out, change: diverted, largest: 100}
		_ = carry.carry()
		// What the server got goes through again unchanged: nothing in it is diverted.
		again := filter{in: bufio.NewReaderSize(bytes.NewReader(out.Bytes()), longestLine), server: &bytes.Buffer{}, change: func(m *Message) {
			if m.Subject == "bad.x" {
				t.Errorf("%q became %q", in, out.String())
			}
		}, largest: 100}
		_ = again.carry()
	})
}

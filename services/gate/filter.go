package gate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// longestLine is more than a server takes as one line, in bytes.
const longestLine = 8 << 10

// filter carries what a client says to a NATS server, and messages to another subject where divert
// says so.
type filter struct {
	in      *bufio.Reader
	server  io.Writer
	divert  func(subject string) (to string)
	largest uint64 // bytes of a message
}

// carry returns when one side ends, or after a line that the server refuses.
func (f *filter) carry() error {
	for {
		line, err := f.in.ReadSlice('\n')
		if err != nil { // too long, or the last
			_, _ = f.server.Write(line)
			return err
		}
		m, ok := publication(line)
		switch {
		case !ok:
			_, err = f.server.Write(line)
		case m.size > f.largest || m.bad:
			_, err := f.server.Write(line)
			return err
		default:
			err = f.message(m, line)
		}
		if err != nil {
			return err
		}
	}
}

// message carries a message, or its subject and nothing else to another subject.
func (f *filter) message(m message, line []byte) error {
	whole := int64(m.size) + int64(len("\r\n"))
	to := f.divert(m.subject)
	if to == "" {
		if _, err := f.server.Write(line); err != nil {
			return err
		}
		_, err := io.CopyN(f.server, f.in, whole)
		return err
	}
	if m.reply != "" {
		to += " " + m.reply
	}
	if _, err := io.CopyN(io.Discard, f.in, whole); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f.server, "PUB %s 0\r\n\r\n", to)
	return err
}

// message is what the line of a message says.
type message struct {
	subject, reply string
	size           uint64
	bad            bool // the server can't read it either
}

// publication reads a line; ok is false if it isn't that of a message.
func publication(line []byte) (m message, ok bool) {
	words := strings.FieldsFunc(strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return m, false
	}
	sizes := 0
	switch strings.ToUpper(words[0]) {
	case "PUB":
		sizes = 1
	case "HPUB":
		sizes = 2
	default:
		return m, false
	}
	words = words[1:]
	if n := len(words) - sizes; n != 1 && n != 2 {
		return message{bad: true}, true
	}
	m.subject = words[0]
	if len(words)-sizes == 2 {
		m.reply = words[1]
	}
	size, err := strconv.ParseUint(words[len(words)-1], 10, 31)
	m.size, m.bad = size, err != nil
	return m, true
}

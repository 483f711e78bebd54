package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// longestLine is more than a server takes as one line, in bytes.
const longestLine = 8 << 10

// Message is what a client publishes.
type Message struct {
	By      string // who sends it: a user of this machine by its number, else the address of another machine
	Subject string
	Header  []byte // in the form of the protocol; nil if there is none
	Data    []byte
}

// filter carries what a client says to a NATS server, and messages as change leaves them.
type filter struct {
	in        *bufio.Reader
	server    io.Writer
	by        string
	change    func(*Message)
	largest   uint64 // bytes of a message
	connected bool   // the client has said how it connects, or we have
}

// errBroken ends a connection whose client doesn't keep to the protocol.
var errBroken = errors.New("not the protocol")

// carry returns when one side ends, or after a line that the server refuses.
func (f *filter) carry() error {
	for {
		line, err := f.in.ReadSlice('\n')
		if err != nil { // too long, or the last
			_, _ = f.server.Write(line)
			return err
		}
		line = bytes.Clone(line) // what follows it is read before it is sent
		m, ok := publication(line)
		switch {
		case !ok:
			err = f.say(line)
		case m.torn:
			return f.broken()
		case m.size > f.largest || m.bad:
			_, err := f.server.Write(line)
			return err
		default:
			err = f.message(m)
		}
		if err != nil {
			return err
		}
	}
}

// say carries a line that is no message.
func (f *filter) say(line []byte) error {
	if op, rest, ok := bytes.Cut(line, []byte(" ")); ok && bytes.EqualFold(op, []byte("CONNECT")) {
		f.connected = true
		line = withHeaders(op, rest)
	}
	_, err := f.server.Write(line)
	return err
}

// connectFirst is what a client says that says nothing of how it connects.
const connectFirst = "CONNECT {\"verbose\":true,\"headers\":true}\r\n"

// withHeaders gives the line of a client that connects, who may have headers put on its messages then.
func withHeaders(op, rest []byte) []byte {
	var said map[string]json.RawMessage
	if json.Unmarshal(rest, &said) != nil || said == nil {
		return append(append(append([]byte{}, op...), ' '), rest...) // the server says what is wrong with it
	}
	for name := range said {
		if strings.EqualFold(name, "headers") {
			delete(said, name)
		}
	}
	said["headers"] = json.RawMessage("true")
	text, err := json.Marshal(said)
	if err != nil {
		return rest
	}
	return append(append([]byte("CONNECT "), text...), "\r\n"...)
}

// broken has the server say that what came isn't its protocol.
func (f *filter) broken() error {
	_, err := io.WriteString(f.server, "PUB\r\n")
	return errors.Join(errBroken, err)
}

// message carries a message as change leaves it.
func (f *filter) message(line message) error {
	whole := make([]byte, line.size+uint64(len("\r\n")))
	if _, err := io.ReadFull(f.in, whole); err != nil {
		return err
	}
	content, ended := bytes.CutSuffix(whole, []byte("\r\n"))
	if !ended {
		return f.broken()
	}
	m := Message{By: f.by, Subject: line.subject, Data: content[line.header:]}
	if line.header > 0 {
		m.Header = content[:line.header]
	}
	f.change(&m)
	var out bytes.Buffer
	if !f.connected {
		f.connected = true
		out.WriteString(connectFirst)
	}
	subject := m.Subject
	if line.reply != "" {
		subject += " " + line.reply
	}
	if len(m.Header) == 0 {
		fmt.Fprintf(&out, "PUB %s %d\r\n", subject, len(m.Data))
	} else {
		fmt.Fprintf(&out, "HPUB %s %d %d\r\n", subject, len(m.Header), len(m.Header)+len(m.Data))
	}
	out.Write(m.Header)
	out.Write(m.Data)
	out.WriteString("\r\n")
	_, err := f.server.Write(out.Bytes())
	return err
}

// message is what the line of a message says.
type message struct {
	subject, reply string
	header, size   uint64 // bytes of the header, and of all
	bad            bool   // the server can't read it either
	// torn says that a subject has a character that servers take and clients don't, such as "\r": it would
	// break the connection of each who hears it.
	torn bool
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
	m.torn = strings.ContainsFunc(m.subject+m.reply, unicode.IsControl)
	size, err := strconv.ParseUint(words[len(words)-1], 10, 31)
	m.size, m.bad = size, err != nil
	if sizes == 2 && err == nil {
		m.header, err = strconv.ParseUint(words[len(words)-2], 10, 31)
		m.bad = err != nil || m.header > m.size
	}
	return m, true
}
